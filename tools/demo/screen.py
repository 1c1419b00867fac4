"""What the demo saw: as a document, as one screen, and what of it is not as it must be."""

import os


def total(rows, key):
    return sum(r[key] for r in rows)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def spread(values):
    """p50 and p99 of durations, in milliseconds."""
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
            "asked_again_blocks": total(after, "blocks"), "hits_lost": missing(after),
            "before": latency(before), "after": latency(after), "retried": retried(after),
            "noticed_seconds": fault["noticed_seconds"],
            "rebuilt_seconds": fault["rebuilt_seconds"],
            "rebuilt_blocks": fault["rebuilt_blocks"], "rebuilt_bytes": fault["rebuilt_bytes"]}


def report(options, about, rows, fault, daemon):
    prefill, decode, followed = rows["prefill"], rows["decode"], rows["followed"]
    known = fault["target"]["before"] + fault["target"]["after"] + fault["last_kill"]["rows"]
    everything = prefill + decode + followed + known
    pulls = [r for r in prefill + decode + known if r["pulled_bytes"] > 0]
    ceiling = [r["bytes"] / r["ns"] for r in rows["ceiling"]]
    pulled = rate(pulls, "pulled_bytes", "pull_ns")
    ceiling_median = quantile(ceiling, 0.5)
    return {
        "trace": about["source"], "requests": options.requests,
        "block_bytes": about["layers"] * about["layer_bytes"], "layers": about["layers"],
        "daemon": daemon.ready_line, "metrics_url": daemon.metrics_url,
        "blocks": total(prefill, "blocks"),
        "hit_rate": total(prefill, "hit_blocks") / max(1, total(prefill, "blocks")),
        "hit_rate_possible": about["hits_possible"] / max(1, about["blocks"]),
        "decode_hit_rate": total(decode, "hit_blocks") / max(1, total(decode, "blocks")),
        "pushed_bytes": total(prefill, "pushed_bytes"),
        "push_gb_per_s": rate([r for r in prefill if r["push_ns"]], "pushed_bytes", "push_ns"),
        "pulled_bytes": total(everything, "pulled_bytes"),
        "pull_gb_per_s": pulled,
        "ceiling_gb_per_s": {"min": min(ceiling), "median": ceiling_median, "max": max(ceiling),
                             "of": len(ceiling)},
        "pull_to_ceiling": pulled / ceiling_median,
        "pulls": latency(pulls),
        "follows": follow_report(followed),
        "target_destroyed": target_report(fault["target"]),
        "kill": {"in_request": fault["kill"]["request"],
                 "serving_seconds": fault["kill"]["seconds"],
                 "retried": retried(prefill + decode)},
        "last_kill": {"serving_seconds": fault["last_kill"]["seconds"],
                      "asked_again_blocks": total(fault["last_kill"]["rows"], "blocks"),
                      "hits_lost": missing(fault["last_kill"]["rows"])},
        "wrong_blocks": total(everything, "wrong_blocks"),
        "evicted_blocks": daemon.total("varve_evicted_blocks_total"),
        "drain_exit": None,
    }


def pair(latencies, key):
    return f"p50 {latencies[key]['p50_ms']:7.2f} ms   p99 {latencies[key]['p99_ms']:7.2f} ms"


def screen_of(r):
    """At most 80 columns; an empty name goes on with what is above it."""
    follows, lost, ceiling = r["follows"], r["target_destroyed"], r["ceiling_gb_per_s"]
    early = follows["first_layer_before_the_last_was_computed"]["p50_ms"]
    rows = [
        ("trace", os.path.basename(r["trace"])),
        ("", f"{r['requests']} requests, {r['blocks']} blocks of {r['block_bytes'] >> 10} KiB in"
             f" {r['layers']} layers"),
        ("hits", f"prefill {r['hit_rate']:.1%} (possible {r['hit_rate_possible']:.1%}),"
                 f" decode {r['decode_hit_rate']:.1%}"),
        ("pushed", f"{r['pushed_bytes'] / 1e9:.2f} GB durable, 2+1, {r['push_gb_per_s']:.2f} GB/s"
                   " with the time to compute it"),
        ("pulled", f"{r['pulled_bytes'] / 1e9:.2f} GB, every byte compared,"
                   f" {r['pull_gb_per_s']:.2f} GB/s"),
        ("ceiling", f"{ceiling['median']:.2f} GB/s ({ceiling['min']:.2f} .. {ceiling['max']:.2f}):"
                    " a raw socket, same messages, in between"),
        ("first layer", pair(r["pulls"], "first_layer") + f"   {r['pulls']['first_layer']['of']}"
                        " pulls"),
        ("last layer", pair(r["pulls"], "last_layer")),
        ("followed", f"{follows['to_the_end']} of {follows['pushes']} pushes under way: first layer"
                     f" there {early:.0f} ms before"),
        ("", "the last was computed, the last"
             f" {follows['end_after_the_push']['p50_ms']:.1f} ms after the push's end (p50)"),
        ("target lost", f"{lost['hits_lost']} of {lost['asked_again_blocks']} hits lost,"
                        f" {lost['retried']} requests tried again;"),
        ("", f"{lost['rebuilt_blocks']:.0f} blocks rebuilt on the three left, whole after"
             f" {lost['rebuilt_seconds']:.1f} s"),
        ("  before it", pair(lost["before"], "first_layer") + "   first layer"),
        ("  without it", pair(lost["after"], "first_layer") + "   of the same requests"),
        ("kill -9", f"in a push: serving again after {r['kill']['serving_seconds']:.2f} s,"
                    f" {r['kill']['retried']} requests tried again"),
        ("kill -9", f"at the end: serving again after {r['last_kill']['serving_seconds']:.2f} s,"
                    f" {r['last_kill']['hits_lost']} of {r['last_kill']['asked_again_blocks']}"
                    " blocks lost"),
        ("", f"({r['evicted_blocks']:.0f} were evicted)"),
        ("in all", f"{r['seconds']:.0f} s, {r['wrong_blocks']} blocks wrong"),
    ]
    line = "-" * 78
    return "\n".join([line, *(f"  {name:<12} {text}" for name, text in rows), line])


def faults_of(r):
    """What is not as it must be, one text each. Nothing excuses a loss but its own eviction."""
    faults = []
    if r["wrong_blocks"] > 0:
        faults.append(f"{r['wrong_blocks']} blocks were wrong")
    if r["last_kill"]["hits_lost"] > r["evicted_blocks"]:
        faults.append(f"{r['last_kill']['hits_lost']} blocks were lost and only"
                      f" {r['evicted_blocks']:.0f} were evicted")
    if r["target_destroyed"]["hits_lost"] > r["evicted_blocks"]:
        faults.append(f"the lost target cost {r['target_destroyed']['hits_lost']} hits")
    if r["decode_hit_rate"] == 0:
        faults.append("nothing that prefill pushed was ever hit")
    if r["follows"]["to_the_end"] == 0:
        faults.append("no push was followed to its end")
    if r["drain_exit"] != 0:
        faults.append(f"varved did not drain (exit {r['drain_exit']})")
    return faults
