"""Predictions of your own input"""
