"""The measurement kit: how long do operators and whole models take on the devices of this machine, and how noisy was it?"""
