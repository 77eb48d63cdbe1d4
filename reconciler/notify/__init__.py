"""Notifications about drift and recovery.

receiver = HttpReceiver(MessageShape.WEBHOOK, endpoint("hook", url), clock=clock, random=random)
delivery = await Notifier([receiver], state=state).notify(drift_of("prod", cluster_id, observations), now=clock.now())
"""
