"""Measurements, other people's data, and the scoring of tools"""
