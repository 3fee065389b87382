"""Target rocketmq: Apache RocketMQ 5.x, of any release whose artifacts can be had."""
