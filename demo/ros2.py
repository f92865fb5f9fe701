#!/usr/bin/env python3
"""Make ros2/kitchen.jsonl: nodes of ROS 2 that weigh, mix and bake, as events of tracetools in JSON lines. It was not recorded.

The same bytes each time. Prints the chains that the trace has, from its own books: tests and docs/analyze.md quote these numbers.
"""

import json
import pathlib
import random

US, MS = 1_000, 1_000_000
BEGIN = 1_795_258_800 * 1_000_000_000  # 2026-11-21 11:00:00 UTC
ROUNDS = 24
# Processes: their threads, and the name of the first one. Addresses are the same in all of them, as they may be.
SCALE, LINE = (510, 511, "scale"), (620, 621, "bakery_line")
SECOND = 622

rng = random.Random(43)
lines = []
books = {}


def emit(ns, of, name, /, tid=None, **payload):
    pid, thread, comm = of
    context = {"vpid": pid, "vtid": tid or thread, "procname": comm}
    cpu = 0 if of is SCALE else 1
    lines.append((ns, len(lines), {"ns": ns, "name": f"ros2:{name}", "cpu": cpu, "stream_context": context, "payload": payload}))


def node(ns, of, handle, name):
    emit(ns, of, "rcl_node_init", node_handle=handle, rmw_handle=handle + 8, node_name=name, namespace="/kitchen")


def publisher(ns, of, handle, node, topic):
    emit(ns, of, "rcl_publisher_init", publisher_handle=handle, node_handle=node, rmw_publisher_handle=handle + 8,
         topic_name=topic, queue_depth=10)


def subscription(ns, of, handle, node, topic, symbol, buffer=None):
    """Its objects follow its handle: the subscription of rclcpp, its callback, and the same for messages of the process."""
    emit(ns, of, "rcl_subscription_init", subscription_handle=handle, node_handle=node, rmw_subscription_handle=handle + 8,
         topic_name=topic, queue_depth=10)
    emit(ns + 1 * US, of, "rclcpp_subscription_init", subscription_handle=handle, subscription=handle + 16)
    emit(ns + 2 * US, of, "rclcpp_subscription_callback_added", subscription=handle + 16, callback=handle + 24)
    emit(ns + 3 * US, of, "rclcpp_callback_register", callback=handle + 24, symbol=symbol)
    if buffer:
        emit(ns + 4 * US, of, "rclcpp_subscription_init", subscription_handle=handle, subscription=handle + 32)
        emit(ns + 5 * US, of, "rclcpp_subscription_callback_added", subscription=handle + 32, callback=handle + 40)
        emit(ns + 6 * US, of, "rclcpp_callback_register", callback=handle + 40, symbol=symbol)
        emit(ns + 7 * US, of, "rclcpp_buffer_to_ipb", buffer=buffer, ipb=buffer + 8)
        emit(ns + 8 * US, of, "rclcpp_ipb_to_subscription", ipb=buffer + 8, subscription=handle + 32)
        emit(ns + 9 * US, of, "rclcpp_construct_ring_buffer", buffer=buffer, capacity=4)


def publish(ns, of, handle, message):
    """By the middleware; gives the time stamp of the message."""
    stamp = ns + 4 * US + 7
    emit(ns - 2 * US, of, "rclcpp_publish", message=message)
    emit(ns, of, "rcl_publish", publisher_handle=handle, message=message)
    emit(ns + 4 * US, of, "rmw_publish", rmw_publisher_handle=handle + 8, message=message, timestamp=stamp)
    return stamp


def take(ns, of, handle, stamp, message, tid=None):
    emit(ns, of, "rmw_take", tid, rmw_subscription_handle=handle + 8, message=message, source_timestamp=stamp, taken=1)
    emit(ns + 2 * US, of, "rcl_take", tid, message=message)
    emit(ns + 4 * US, of, "rclcpp_take", tid, message=message)


def run(begin, end, of, callback, tid=None, inside=0):
    emit(begin, of, "callback_start", tid, callback=callback, is_intra_process=inside)
    emit(end, of, "callback_end", tid, callback=callback)


def note(chain, length):
    books.setdefault(chain, []).append(length)


def main():
    at = BEGIN
    node(at, SCALE, 0x1000, "scale")
    publisher(at + 10 * US, SCALE, 0x1100, 0x1000, "/weight")
    emit(at + 20 * US, SCALE, "rcl_timer_init", timer_handle=0x1200, period=20 * MS)
    emit(at + 21 * US, SCALE, "rclcpp_timer_callback_added", timer_handle=0x1200, callback=0x1210)
    emit(at + 22 * US, SCALE, "rclcpp_callback_register", callback=0x1210, symbol="Scale::weigh()")
    emit(at + 23 * US, SCALE, "rclcpp_timer_link_node", timer_handle=0x1200, node_handle=0x1000)
    node(at + 30 * US, LINE, 0x1000, "mixer")
    publisher(at + 40 * US, LINE, 0x1100, 0x1000, "/dough")
    subscription(at + 50 * US, LINE, 0x1300, 0x1000, "/weight", "Mixer::mix(Weight)")
    node(at + 70 * US, LINE, 0x2000, "oven")
    subscription(at + 80 * US, LINE, 0x2300, 0x2000, "/dough", "Oven::bake(Dough)", buffer=0x2400)
    # The thermometer is a program that was not traced.
    subscription(at + 100 * US, LINE, 0x2500, 0x2000, "/heat", "Oven::warm(Heat)")
    for number in range(ROUNDS):
        at = BEGIN + 10 * MS + number * 20 * MS + rng.randint(0, 300) * US
        start = at
        message = 0x9000 + 64 * number
        # The scale weighs.
        weighs = rng.randint(400, 900) * US
        stamp = publish(at + weighs, SCALE, 0x1100, message)
        run(at, at + weighs + 30 * US, SCALE, 0x1210)
        # The mixer takes it, and is late when the oven was warmed first by the same thread.
        sent = at + weighs
        at = sent + rng.randint(120, 400) * US
        if number % 5 == 2:
            take(at, LINE, 0x2500, at - 90 * US, message + 16)
            run(at + 8 * US, at + 3 * MS, LINE, 0x2500 + 24)
            at += 3 * MS + 20 * US
        take(at, LINE, 0x1300, stamp, message + 32)
        begin = at + 9 * US
        mixes = rng.randint(1_200, 2_600) * US
        # Dough goes to the oven inside of the process, by the buffer of its subscription.
        emit(begin + mixes, LINE, "rclcpp_intra_publish", publisher_handle=0x1100, message=message + 32)
        emit(begin + mixes + 2 * US, LINE, "rclcpp_ring_buffer_enqueue", buffer=0x2400, index=number % 4, size=1, overwritten=0)
        end = begin + mixes + 15 * US
        run(begin, end, LINE, 0x1300 + 24)
        note("scale -> mixer", end - start)
        at = begin + mixes + rng.randint(60, 200) * US
        emit(at, LINE, "rclcpp_ring_buffer_dequeue", SECOND, buffer=0x2400, index=number % 4, size=0)
        begin = at + 6 * US
        end = begin + rng.randint(3_000, 5_000) * US
        run(begin, end, LINE, 0x2300 + 40, SECOND, inside=1)
        note("scale -> mixer -> oven", end - start)
    lines.sort(key=lambda line: line[:2])
    folder = pathlib.Path(__file__).parent / "ros2"
    folder.mkdir(exist_ok=True)
    with open(folder / "kitchen.jsonl", "w") as out:
        for _, _, event in lines:
            out.write(json.dumps(event, separators=(",", ":")) + "\n")
    print(f"{len(lines)} events")
    for chain, lengths in books.items():
        print(f"{chain}: {len(lengths)} chains, {sum(lengths)} ns, longest {max(lengths)} ns")


main()
