"""`DemoRecorder`: a lifecycle node that records topics of any type into bags on request; see `eim_ros.bags.recorder`.

The node provides the services ~/start, ~/stop, ~/discard and ~/label, and publishes ~/status. During a recording, the
single thread of the node takes messages from the queues of the middleware 50 times per second. A recording ends when
the node is deactivated.
"""

from __future__ import annotations

import time
from typing import Any

from std_srvs.srv import Trigger

from eim_ros.bags.recorder import Recorder, free_space
from eim_ros.core.errors import EimError, shortened
from eim_ros.nodes.common.interfaces import LabelRecording, RecorderStatus, StartRecording
from eim_ros.nodes.common.node import ManagedNode, answered, guarded
from eim_ros.nodes.common.process import PeriodicWork
from eim_ros.nodes.common.subscriptions import RawSubscription, topic_of
from eim_ros.nodes.settings import DemoRecorderSettings

_TAKE_PERIOD = 0.02  # [s]
_DISCOVERY_PERIOD = 0.1  # [s]
_MOST_AT_ONCE = 2000  # maximum number of messages per read of a topic; more would delay services


class DemoRecorder(ManagedNode[DemoRecorderSettings]):
    """Node that records topics into bags."""

    def __init__(self) -> None:
        super().__init__("demo_recorder", DemoRecorderSettings, "recording")
        self._recorder = Recorder(
            self.resolve_topic_name("~/segment"), self.settings.flush_period, lambda: self.settings.min_free_space
        )
        self._raw_subscriptions: dict[str, RawSubscription] = {}
        self._n_lost: dict[str, int] = {}
        self._telling = PeriodicWork(self, {self._report: self.settings.status_period})
        self._recording = PeriodicWork(self, {self._take: _TAKE_PERIOD, self._discover: _DISCOVERY_PERIOD})
        self._status = self.create_publisher(RecorderStatus, "~/status", 10)
        self.create_service(StartRecording, "~/start", answered(self, self._start, self._report))
        self.create_service(Trigger, "~/stop", answered(self, self._stop, self._report))
        self.create_service(Trigger, "~/discard", answered(self, self._discard, self._report))
        self.create_service(LabelRecording, "~/label", answered(self, self._label, self._report))

    def activate(self) -> None:
        if self.settings.record_at_start:
            self._start(StartRecording.Request(), StartRecording.Response())
        self._telling.start()

    def deactivate(self) -> None:
        self._telling.stop()
        guarded(self, self._take)()
        if self._recorder.is_recording:
            self._stop(None, StartRecording.Response())
        self._unsubscribe()

    def end(self, timeout: float) -> bool:
        """End the current recording."""
        guarded(self, self.deactivate)()
        return True

    def facts(self) -> dict[str, str]:
        recorder = self._recorder
        counts = zip(recorder.topics, recorder.counts, strict=True)
        return {
            "recording": str(recorder.is_recording).lower(),
            "path": str(recorder.path) if recorder.topics else "",
            **{f"messages of {name}": str(n) for name, n in counts},
            "messages lost": str(sum(self._n_lost.values())),
        }

    def warning(self) -> str:
        n_lost = sum(self._n_lost.values())
        return self._recorder.message or (f"{n_lost} messages were lost" if n_lost else "")

    # Services

    def _start(self, request: Any, response: Any) -> None:
        names = list(request.topics) or list(self.settings.topics)
        topics = [self.resolve_topic_name(name) for name in names]
        data, folder = self.settings.data, self.settings.folder
        path = data.resolve(request.path) if request.path else data.unused(folder, time.strftime("demo_%Y%m%d_%H%M%S"))
        self._recorder.start(path, topics, request.label, time.time_ns())
        self._n_lost = {}
        self._discover()
        self._recording.start()
        response.path = str(path)
        if waited := self._recorder.unknown_topics:
            response.message = shortened(f"no node publishes {', '.join(waited)} yet")
        self.get_logger().info(shortened(f"recording {', '.join(topics)} into {path}"))

    def _stop(self, request: Any, response: Any) -> None:
        self._take()
        try:
            response.message = self._recorder.stop()
        finally:
            self._unsubscribe()
        if n_lost := sum(self._n_lost.values()):
            response.message += f"; {n_lost} messages were lost"
        self.get_logger().info(f"wrote {self._recorder.path}: {response.message}")

    def _discard(self, request: Any, response: Any) -> None:
        try:
            response.message = self._recorder.discard()
        finally:
            self._unsubscribe()
        self.get_logger().info(response.message)

    def _label(self, request: Any, response: Any) -> None:
        self._take()
        self._recorder.label(request.label, time.time_ns())

    # Recording

    def _discover(self) -> None:
        """Subscribe to requested topics that now have a publisher."""
        for name in self._recorder.unknown_topics:
            try:
                topic = topic_of(self, name)
                if topic is None:
                    continue
                subscription = RawSubscription(self, topic, self.settings.queue_depth)
            except EimError as error:
                self._recorder.leave_out(name, str(error))
                continue
            if self._recorder.add_topic(topic):
                self._raw_subscriptions[name] = subscription
            else:
                subscription.destroy()

    def _take(self) -> None:
        """Write the messages that have arrived."""
        recorder = self._recorder
        for name, subscription in self._raw_subscriptions.items():
            for log_time, publish_time, data in subscription.take(_MOST_AT_ONCE):
                recorder.write(name, log_time, publish_time, data)
            self._n_lost[name] = subscription.n_lost
        if recorder.is_recording:
            recorder.tick()
        if not recorder.is_recording and self._recording.is_on:  # the recorder has stopped because the disk is full
            self._unsubscribe()
            self.get_logger().error(recorder.message)

    def _unsubscribe(self) -> None:
        for subscription in self._raw_subscriptions.values():
            subscription.destroy()
        self._raw_subscriptions = {}
        self._recording.stop()

    def _report(self) -> None:
        recorder = self._recorder
        for name, subscription in self._raw_subscriptions.items():
            if problem := subscription.unheard:
                recorder.leave_out(name, problem)
        message = RecorderStatus(
            recording=recorder.is_recording,
            path=str(recorder.path) if recorder.topics else "",
            label=recorder.current_label,
            n_segments=recorder.n_segments,
            duration=recorder.duration,
            topics=list(recorder.topics),
            n_messages=recorder.counts,
            n_lost=[self._n_lost.get(name, 0) for name in recorder.topics],
            size=recorder.size,
            free_space=free_space(
                recorder.path if recorder.topics else self.settings.data.chosen(self.settings.folder)
            ),
            message=recorder.message,
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._status.publish(message)
