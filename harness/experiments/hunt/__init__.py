"""The hunt: random schedules on Apache RocketMQ, what they found, and what they never reached."""
