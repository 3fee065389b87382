"""What is known of findings on Apache RocketMQ, and what nodes' logs show of it."""
