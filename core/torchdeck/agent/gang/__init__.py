"""The gang's decisions: a pure state machine. Events in, commands out."""
