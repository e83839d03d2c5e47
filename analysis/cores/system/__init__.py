"""What does a deployed system need around the model? From the core to the cloud:

- `rank`: How many cycles does a trace take on each design by a trained model, in which order, and how sure is the order?
- `sealed`: Keep a trace unreadable at rest:
"""
