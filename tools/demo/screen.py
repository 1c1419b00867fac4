"""What the demo saw: as a document, as one screen, and what of it is not as it must be."""

import os

from play import DATA, PARITY, REPAIR_MB_PER_S, TARGETS

P99_SAMPLES_MIN = 100  # of fewer the p99 is the worst one, and called so


def total(rows, key):
    return sum(r[key] for r in rows)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def spread(values):
    """p50 and p99 of durations, in milliseconds; the p99 of few is the worst."""
    return {"p50_ms": quantile(values, 0.5) / 1e6, "p99_ms": quantile(values, 0.99) / 1e6,
            "of": len(values)}


def latency(rows):
    """Of those that pulled anything: until the first layer of all blocks, and until the last."""
    pulls = [r for r in rows if r["pulled_bytes"] > 0]
    return {"first_layer": spread([r["first_layer_ns"] for r in pulls]),
            "last_layer": spread([r["pull_ns"] for r in pulls])}


def rate(rows, bytes_key, ns_key):
    """GB/s over all of them."""
    return total(rows, bytes_key) / max(1, total(rows, ns_key))


def missing(rows):
    """Blocks that were acknowledged before and did not come."""
    return total(rows, "blocks") - total(rows, "pulled_blocks")


def retried(rows):
    return sum(1 for r in rows if r["retries"] > 0)


def kill_report(fault):
    """A kill costs the time until it serves, and then that in which not all is found again: an
    engine would compute meanwhile, the demo asks again."""
    rows = fault["rows"]
    return {"serving_seconds": fault["seconds"],
            "hits_again_seconds": fault["seconds"] + total(rows, "recovering_ns") / 1e9,
            "short_matches": total(rows, "recovering_asks")}


def follow_report(rows):
    """How long before the end of its push a follower had the first layer, and after it the last."""
    good = [r for r in rows if not r["error"] and r["failed_blocks"] == 0]
    early = [r["computed_at_ns"] - r["first_layer_at_ns"] for r in good if r["first_layer_at_ns"]]
    late = [max(0, r["done_at_ns"] - r["pushed_at_ns"]) for r in good]
    # Times are of those that got to the end alone; how many did not stands beside them.
    return {"pushes": len(rows), "to_the_end": len(good), "failed": len(rows) - len(good),
            "blocks": total(good, "pulled_blocks"),
            "first_layer_before_the_last_was_computed": spread(early),
            "end_after_the_push": spread(late)}


def target_report(fault):
    before, after = fault["before"], fault["after"]
    return {"target": fault["target"], "in_request": fault["request"],
            "retried": retried(fault["rows"]),
            "asked_again_blocks": total(after, "blocks"), "hits_lost": missing(after),
            "thin_blocks_after": fault["thin_blocks_after"],
            "decoded_extents": total(after, "rebuilt_extents"),
            "before": latency(before), "after": latency(after), "retried_after": retried(after),
            "noticed_seconds": fault["noticed_seconds"],
            "rebuilt_seconds": fault["rebuilt_seconds"],
            "rebuilt_blocks": fault["rebuilt_blocks"], "rebuilt_bytes": fault["rebuilt_bytes"]}


def push_report(rows, block_bytes):
    """Of blocks that were acknowledged, with the time to compute them."""
    pushed = total(rows, "pushed_blocks") * block_bytes
    return {"pushed_bytes": pushed,
            "push_gb_per_s": pushed / max(1, total(rows, "push_ns"))}


def report(options, about, rows, fault, daemon):
    prefill, decode, followed = rows["prefill"], rows["decode"], rows["followed"]
    known = fault["target"]["before"] + fault["target"]["after"] + fault["last_kill"]["rows"]
    everything = prefill + decode + followed + known
    pulls = [r for r in prefill + decode + known if r["pulled_bytes"] > 0]
    ceiling = [r["bytes"] / r["ns"] for r in rows["ceiling"]]
    pulled = rate(pulls, "pulled_bytes", "pull_ns")
    ceiling_median = quantile(ceiling, 0.5)
    block_bytes = about["layers"] * about["layer_bytes"]
    return {
        "trace": about["source"], "requests": options.requests,
        "block_bytes": block_bytes, "layers": about["layers"],
        "daemon": daemon.ready_line, "metrics_url": daemon.metrics_url,
        "blocks": total(prefill, "blocks"),
        "hit_blocks": total(prefill, "hit_blocks"), "hits_possible": about["hits_possible"],
        "hit_rate": total(prefill, "hit_blocks") / max(1, total(prefill, "blocks")),
        "hit_rate_possible": about["hits_possible"] / max(1, about["blocks"]),
        "decode_hit_rate": total(decode, "hit_blocks") / max(1, total(decode, "blocks")),
        **push_report(prefill, block_bytes),
        "pulled_bytes": total(everything, "pulled_bytes"),
        "pull_gb_per_s": pulled,
        "ceiling_gb_per_s": {"min": min(ceiling), "median": ceiling_median, "max": max(ceiling),
                             "of": len(ceiling)},
        "pull_to_ceiling": pulled / ceiling_median,
        "pulls": latency(pulls),
        "follows": follow_report(followed),
        "target_destroyed": target_report(fault["target"]),
        "kill": {"in_request": fault["kill"]["request"], **kill_report(fault["kill"]),
                 "retried": retried(fault["kill"]["rows"])},
        "last_kill": {**kill_report(fault["last_kill"]),
                      "asked_again_blocks": total(fault["last_kill"]["rows"], "blocks"),
                      "hits_lost": missing(fault["last_kill"]["rows"])},
        "decode_lost": missing(decode),
        "wrong_blocks": total(everything, "wrong_blocks"),
        "evicted_blocks": daemon.total("varve_evicted_blocks_total"),
    }


def pair(latencies, key):
    of = latencies[key]
    last = "p99  " if of["of"] >= P99_SAMPLES_MIN else "worst"
    return f"p50 {of['p50_ms']:7.2f} ms   {last} {of['p99_ms']:7.2f} ms"


def trace_of(source):
    """The generator says itself what it is; a path is as long as it likes."""
    return source if source.startswith("generator") else os.path.basename(source.rstrip("/"))


def early_of(follows):
    """When the first layer was there, told from the push's last one."""
    early = follows["first_layer_before_the_last_was_computed"]["p50_ms"]
    return f"{abs(early):.0f} ms {'before' if early >= 0 else 'after'}"


def kill_cost(kill):
    return (f"serving again after {kill['serving_seconds']:.2f} s,"
            f" hits again after {kill['hits_again_seconds']:.2f} s")


def fault_rows(r):
    lost, kill, last = r["target_destroyed"], r["kill"], r["last_kill"]
    return [
        ("kill -9", f"in a push: {kill_cost(kill)}"),
        ("", f"({kill['short_matches']} short matches);"
             f" {kill['retried']} of 2 workers tried again"),
        ("target lost", f"in a push: {lost['retried']} of 2 workers tried again; then"
                        f" {lost['hits_lost']} of {lost['asked_again_blocks']}"),
        ("", f"hits lost while {lost['thin_blocks_after']:.0f} blocks lacked a fragment:"
             f" {lost['decoded_extents']} extents decoded"),
        ("  before it", pair(lost["before"], "first_layer") + "   first layer"),
        ("  without it", pair(lost["after"], "first_layer") + "   of the same requests"),
        ("  rebuilt", f"{lost['rebuilt_blocks']:.0f} blocks on the {TARGETS - 1} left,"
                      f" {lost['rebuilt_bytes'] / 1e6:.0f} MB in {lost['rebuilt_seconds']:.1f} s"
                      f" (limit {REPAIR_MB_PER_S} MB/s)"),
        ("kill -9", f"at the end: {kill_cost(last)}"),
        ("", f"({last['short_matches']} short matches);"
             f" {last['hits_lost']} of {last['asked_again_blocks']} blocks lost"),
    ]


def screen_of(r):
    """At most 80 columns; an empty name goes on with what is above it."""
    follows, ceiling = r["follows"], r["ceiling_gb_per_s"]
    rows = [
        ("trace", trace_of(r["trace"])[:64]),
        ("", f"{r['requests']} requests, {r['blocks']} blocks of {r['block_bytes'] >> 10} KiB in"
             f" {r['layers']} layers"),
        ("hits", f"prefill {r['hit_blocks']} of {r['hits_possible']} possible"
                 f" ({r['hit_rate']:.1%} of its blocks), decode {r['decode_hit_rate']:.1%}"),
        ("pushed", f"{r['pushed_bytes'] / 1e9:.2f} GB durable, {DATA}+{PARITY},"
                   f" {r['push_gb_per_s']:.2f} GB/s with the time to compute it"),
        ("pulled", f"{r['pulled_bytes'] / 1e9:.2f} GB, every byte compared,"
                   f" {r['pull_gb_per_s']:.2f} GB/s, of all sizes and states"),
        ("ceiling", f"{ceiling['median']:.2f} GB/s ({ceiling['min']:.2f} .. {ceiling['max']:.2f}):"
                    " a raw socket, same messages, in between"),
        ("first layer", pair(r["pulls"], "first_layer") + f"   {r['pulls']['first_layer']['of']}"
                        " pulls"),
        ("last layer", pair(r["pulls"], "last_layer")),
        ("followed", f"{follows['to_the_end']} of {follows['pushes']} pushes under way: first layer"
                     f" there {early_of(follows)}"),
        ("", "the last was computed, the last"
             f" {follows['end_after_the_push']['p50_ms']:.1f} ms after the push's end (p50)"),
        *fault_rows(r),
        ("in all", f"{r['seconds']:.0f} s, {r['wrong_blocks']} blocks wrong,"
                   f" {r['evicted_blocks']:.0f} evicted"),
    ]
    line = "-" * 78
    return "\n".join([line, *(f"  {name:<12} {text}" for name, text in rows), line])


def faults_of(r):
    """What is not as it must be, one text each: a loss, and a fault that met nothing."""
    lost, faults = r["target_destroyed"], []
    if r["wrong_blocks"] > 0:
        faults.append(f"{r['wrong_blocks']} blocks were wrong")
    if r["evicted_blocks"] > 0:
        faults.append(f"{r['evicted_blocks']:.0f} blocks were evicted, though there was room")
    if r["hit_blocks"] != r["hits_possible"]:
        faults.append(f"{r['hits_possible'] - r['hit_blocks']} hits of prefill were lost")
    if r["decode_lost"] > 0:
        faults.append(f"{r['decode_lost']} blocks did not come to decode after their push")
    if r["last_kill"]["hits_lost"] > 0:
        faults.append(f"{r['last_kill']['hits_lost']} blocks were lost")
    if lost["hits_lost"] > 0:
        faults.append(f"the lost target cost {lost['hits_lost']} hits")
    if lost["decoded_extents"] == 0:
        faults.append("no pull needed the target that was lost, so that cost nothing")
    if lost["rebuilt_blocks"] == 0:
        faults.append("nothing was rebuilt after the target was lost")
    if r["kill"]["retried"] == 0:
        faults.append("the kill in a push was noticed by nobody")
    if r["decode_hit_rate"] == 0:
        faults.append("nothing that prefill pushed was ever hit")
    if r["follows"]["to_the_end"] == 0:
        faults.append("no push was followed to its end")
    if r.get("drain_exit", 0) != 0:  # absent where varved goes on
        faults.append(f"varved did not drain (exit {r['drain_exit']})")
    return faults
