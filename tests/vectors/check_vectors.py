#!/usr/bin/env python3
"""Recomputes every golden vector from docs/FORMAT.md alone.

Shares no code with the product: hashlib for SHA-256, CRC32C and XXH3-64 (inputs of 17 to 128 bytes)
in plain Python. Exit status 0 when all vectors hold; the first line that does not is printed.
"""

import decimal
import fractions
import hashlib
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = 4096
EXTENT_MIN = 64 * 1024
EXTENT_MAX = 4 * 1024 * 1024
TYPES = ["", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "fp32", "int8", "opaque"]
LAYOUTS = ["", "nhd", "hnd", "page_first", "opaque"]
KINDS = ["", "full", "sliding", "latent", "state", "opaque"]
M64 = (1 << 64) - 1

# The default secret of XXH3, its first 192 bytes.
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def crc32c(seed, data):
    state = seed ^ 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def u64(data, at):
    return int.from_bytes(data[at : at + 8], "little")


def fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def xxh3(seed, data):
    """XXH3-64 with a seed, for 17 to 128 bytes."""
    assert 17 <= len(data) <= 128

    def mix16(at, secret_at):
        low = u64(data, at) ^ ((u64(SECRET, secret_at) + seed) & M64)
        high = u64(data, at + 8) ^ ((u64(SECRET, secret_at + 8) - seed) & M64)
        return fold(low, high)

    size = len(data)
    acc = size * 0x9E3779B185EBCA87 & M64
    for i in range((size - 1) // 32, -1, -1):
        acc = (acc + mix16(16 * i, 32 * i)) & M64
        acc = (acc + mix16(size - 16 * (i + 1), 32 * i + 16)) & M64
    acc ^= acc >> 37
    acc = acc * 0x165667919E3779F9 & M64
    return acc ^ acc >> 32


def records(name):
    """Blank-line separated groups of 'key value' lines; '#' starts a comment line."""
    group = {}
    for line in (HERE / name).read_text().splitlines() + [""]:
        if line.startswith("#"):
            continue
        if not line:
            if group:
                yield group
            group = {}
            continue
        key, _, value = line.partition(" ")
        group.setdefault(key, []).append(value)


def one(group, key):
    assert len(group[key]) == 1, key
    return group[key][0]


def parse_layers(text):
    """'full:4096*3 state:10' as [(kind number, bytes)]."""
    layers = []
    for item in text.split():
        item, _, times = item.partition("*")
        kind, size = item.split(":")
        layers += [(KINDS.index(kind), int(size))] * int(times or 1)
    return layers


def text_field(text):
    raw = text.encode()
    return struct.pack("<H", len(raw)) + raw


def encode_format(group):
    out = struct.pack("<IHH", 0x46565256, 1, 0)
    out += bytes.fromhex(one(group, "model")) + bytes.fromhex(one(group, "adapter"))
    kv_type, layout = TYPES.index(one(group, "type")), LAYOUTS.index(one(group, "layout"))
    out += struct.pack("<BBHI", kv_type, layout, 0, int(one(group, "tokens_per_block")))
    out += text_field(one(group, "lineage"))
    out += struct.pack("<I", len(group["rank"]))
    for rank in group["rank"]:
        layers = parse_layers(rank)
        out += struct.pack("<I", len(layers))
        for kind, size in layers:
            out += struct.pack("<BI", kind, size)
    extras = [extra.partition("=") for extra in group.get("extra", [])]
    assert [key for key, _, _ in extras] == sorted(key for key, _, _ in extras)
    out += struct.pack("<I", len(extras))
    for key, _, value in extras:
        out += text_field(key) + text_field(value)
    return out


def base_id(group):
    head = bytes.fromhex(one(group, "fingerprint")) + bytes.fromhex(one(group, "salt"))
    if "engine_hash" in group:
        engine = bytes.fromhex(one(group, "engine_hash"))
        data = b"varve.base.eng.1" + head + struct.pack("<Q", len(engine)) + engine
    else:
        tokens = [int(t) for t in one(group, "tokens").split()]
        extras = bytes.fromhex(one(group, "extras"))
        data = b"varve.base.tok.1" + head + bytes.fromhex(one(group, "parent"))
        data += struct.pack(f"<Q{len(tokens)}I", len(tokens), *tokens)
        data += struct.pack("<Q", len(extras)) + extras
    return hashlib.sha256(data).hexdigest()


def seed_bytes(group):
    return bytes.fromhex(one(group, "base_id")) + struct.pack(
        "<IIIIQ", *(int(one(group, key)) for key in
                    ("rank", "extent", "boot_generation", "target", "counter")))


def ceil_div(a, b):
    return -(-a // b)


def units_of(layers):
    """FORMAT 4.1 step 1: lists of layer indexes, each with a number of pieces."""
    units, open_run = [], False
    for i, (kind, size) in enumerate(layers):
        if size >= EXTENT_MIN:
            units.append(([i], ceil_div(size, EXTENT_MAX)))
            open_run = False
            continue
        run = units[-1][0] if open_run else []
        if run and layers[run[0]][0] == kind and sum(layers[j][1] for j in run) < EXTENT_MIN:
            run.append(i)
        else:
            units.append(([i], 1))
        open_run = True
    return units


def cut(units, layers, k):
    """FORMAT 4.1 step 3."""
    def size(run):
        return sum(layers[j][1] for j in run)

    while sum(n for _, n in units) < k:
        best = None
        for index, (run, n) in enumerate(units):
            pages = ceil_div(size(run), PAGE)
            if len(run) == 1 and n >= pages:
                continue
            piece = size(run) if len(run) > 1 else min(size(run), PAGE * ceil_div(pages, n))
            if best is None or piece > best[0]:
                best = (piece, index)
        if best is None:
            return
        index = best[1]
        run, n = units[index]
        if len(run) == 1:
            units[index] = (run, n + 1)
        else:
            middle = min(range(1, len(run)), key=lambda c: (abs(2 * size(run[:c]) - size(run)), c))
            units[index : index + 1] = [(run[:middle], 1), (run[middle:], 1)]


def extent_table(layers, k):
    """The extents as 'layer_first,layer_count,layer_offset,bytes,kind' texts."""
    units = units_of(layers)
    cut(units, layers, k)
    out = []
    for run, n in units:
        size = sum(layers[j][1] for j in run)
        pages = ceil_div(size, PAGE)
        for i in range(n):
            begin = i * pages // n * PAGE
            end = size if i == n - 1 else (i + 1) * pages // n * PAGE
            out.append(f"{run[0]},{len(run)},{begin},{end - begin},{KINDS[layers[run[0]][0]]}")
    return out


def stripes(table, k):
    """The stripes of 4.3 as 'first,count,bytes' texts."""
    out = []
    for e, text in enumerate(table):
        size, kind = int(text.split(",")[3]), text.split(",")[4]
        key = (kind, (ceil_div(size, PAGE) - 1).bit_length())
        if out and out[-1][3] == key and out[-1][1] < k:
            out[-1][1] += 1
            out[-1][2] = max(out[-1][2], size)
        else:
            out.append([e, 1, size, key])
    return [f"{first},{count},{size}" for first, count, size, _ in out]


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


LEVELS = ["drive", "node", "rack", "zone"]
DOMAIN_SALTS = [0x452821E638D01377, 0xBE5466CF34E90C6C, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917]


def log_table():
    """FORMAT 10.3: round(2^32 * log2(1 + i/256)), with 50 digits."""
    with decimal.localcontext() as context:
        context.prec = 50
        two = decimal.Decimal(2)
        logs = [(1 + decimal.Decimal(i) / 256).ln() / two.ln() for i in range(257)]
        return [int((log * 2**32).to_integral_value(decimal.ROUND_HALF_UP)) for log in logs]


LOG_TABLE = log_table()


def minus_log2(x):
    x = max(x, 1)
    zeros = 64 - x.bit_length()
    f = x << zeros + 1 & M64
    s, p = f >> 56, f >> 24 & 0xFFFFFFFF
    return (zeros + 1 << 32) - (LOG_TABLE[s] + ((LOG_TABLE[s + 1] - LOG_TABLE[s]) * p >> 32))


def cost(x, weight):
    return fractions.Fraction(minus_log2(x), weight), M64 - x


def position_word(group, position):
    return mix((group << 32 | position) ^ 0x082EFA98EC4E6C89)


def domain_word(target, level):
    domain = target[("key", "node", "rack", "zone")[level]]
    return mix(domain ^ DOMAIN_SALTS[level])


def place_homes(group, level, targets, positions, home):
    """FORMAT 10.4 steps 2 to 5."""
    group_word = mix(group ^ 0xA4093822299F31D0)
    domains = {}
    for target in targets:
        domains.setdefault(domain_word(target, level), []).append(target)

    def cost_of(word):
        return min(cost(mix(group_word ^ domain_word(t, 0) ^ 0x13198A2E03707344), t["weight"])
                   for t in domains[word])

    got = {word: [] for word in domains}
    room = max(level - 1, 0)
    while positions:
        free = [word for word in domains if not got[word] or
                len(got[word]) < len({domain_word(t, room) for t in domains[word]})]
        if not free:
            room -= 1
            continue
        rest = []
        taken = set()
        for i, position in enumerate(positions):
            own = [w for w in free if mix(group_word ^ w) % len(positions) == i]
            if own:
                word = min(own, key=cost_of)
                got[word].append(position)
                taken.add(word)
            else:
                rest.append(position)
        free = [word for word in free if word not in taken]
        while rest and free:
            _, i, word = max((mix(position_word(group, i) ^ word), -i, word)
                             for i in rest for word in free)
            got[word].append(-i)
            rest.remove(-i)
            free.remove(word)
        positions = rest
    for word, its in got.items():
        if level == 0 and its:
            home[its[0]] = domains[word][0]
        elif its:
            place_homes(group, level - 1, domains[word], sorted(its), home)


def place_stripe(spread, targets, group, width):
    """FORMAT 10.4: (home, target) by position."""
    home = [None] * width
    place_homes(group, spread, targets, list(range(min(width, len(targets)))), home)
    now = [t if t and t["state"] == "usable" else None for t in home]

    def crowd(target):
        levels = range(spread, 0, -1)
        counts = [sum(1 for t in now if t and domain_word(t, level) == domain_word(target, level))
                  for level in levels]
        return sum(1 for count in counts if count > 0), counts

    for i in range(width):
        free = [t for t in targets if t["state"] == "usable" and t not in now]
        if home[i] and not now[i] and free:
            word = position_word(group, i)
            now[i] = min(free, key=lambda t: (crowd(t), cost(mix(word ^ domain_word(t, 0)),
                                                             t["weight"])))
    return home, now


def thin_place(now, k):
    now = list(now)
    for i in range(k):
        parity = [j for j in range(k, len(now)) if now[j]]
        if not now[i] and parity:
            now[i], now[parity[-1]] = now[parity[-1]], None
    return now


def place_text(targets, places):
    return " ".join("-" if t is None else str(targets.index(t)) for t in places)


def placement(group):
    """The lines that FORMAT 10 computes for one record of placement_1.txt."""
    if "x" in group:
        yield "log", str(minus_log2(int(one(group, "x"), 16)))
    elif "base_id" in group:
        words = struct.unpack("<4Q", bytes.fromhex(one(group, "base_id")))
        slices = mix(words[0] ^ 0x243F6A8885A308D3)
        yield "slices_1_16_64", " ".join(str(slices % count) for count in (1, 16, 64))
        yield "group", str(mix(words[2] ^ 0x3F84D5B5B5470917) % 4096)
        turn = mix(words[3] ^ 0x9216D5D98979FB1B)
        yield "rotation_k_1_to_16", " ".join(str(turn % k) for k in range(1, 17))
        yield "positions_extents_0_to_5_rank_3_k_5", " ".join(
            str((extent + 3 + turn % 5) % 5) for extent in range(6))
    else:
        names = ("key", "weight", "node", "rack", "zone", "state")
        targets = [dict(zip(names, [int(v, 16 if i == 0 else 10) for i, v in enumerate(line[:5])]
                            + line[5:])) for line in map(str.split, group["target"])]
        spread, k = LEVELS.index(one(group, "spread")), int(one(group, "k"))
        for number in map(int, one(group, "groups").split()):
            home, now = place_stripe(spread, targets, number, k + int(one(group, "m")))
            held = [t for t in now if t]
            most = [max([0] + [[domain_word(t, level) for t in held].count(domain_word(u, level))
                               for u in held]) for level in range(4)]
            level = max(level for level in range(spread + 1) if most[level] <= 1)
            yield "place", (f"{place_text(targets, home)} | {place_text(targets, now)} | "
                            f"{place_text(targets, thin_place(now, k))} | "
                            f"{len(held)} {LEVELS[level]} {most[spread]}")


def gf_times(a, b):
    """FORMAT 4.4: the product in GF(256) modulo x^8 + x^4 + x^3 + x^2 + 1."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return product


def parity_rows(k, m):
    """FORMAT 4.4: the coefficients of each parity extent, and the number of the matrix."""
    if m < 2:
        return m, [[1] * k] * m

    def inverse(a):
        return next(b for b in range(1, 256) if gf_times(a, b) == 1)

    return 2, [[inverse((k + i) ^ j) for j in range(k)] for i in range(m)]


def parity_of(row, members):
    """One parity extent: as long as the longest member, shorter ones count as zero-padded."""
    out = bytearray(max(len(member) for member in members))
    for coefficient, member in zip(row, members):
        for at, byte in enumerate(member):
            out[at] ^= gf_times(coefficient, byte)
    return bytes(out)


CHECKED = 0


def expect(where, got, wanted):
    global CHECKED
    CHECKED += 1
    if got != wanted:
        sys.exit(f"{where}: computed {got}\n  but the file says {wanted}")


def flash_structs():
    """The structs of sections 5 to 7, filled with the values that flash_1.txt describes."""
    target, node = bytes(range(16)), bytes(range(16, 32))
    geometry = struct.pack("<QIIII", 64 << 20, 4, 256, 13, 8)

    def superblock(crc):
        page = struct.pack("<8sIIQ", b"VRVEVSB1", 1, crc, 7) + target + node
        scheme = struct.pack("<BBH", 4, 2, 0)
        page += hashlib.sha256(geometry + scheme).digest() + geometry
        page += struct.pack("<III", 5, 2, 1) + scheme
        page += struct.pack("<IIQII", 3, 4, 0, 0, 0)
        return page.ljust(PAGE, b"\0")

    def segment(crc):
        head = struct.pack("<8sII", b"VRVESEG1", 1, crc) + target
        return head + struct.pack("<IIQQII", 1, 6, 9, 0x0123456789ABCDEF, 5, 0)

    base, attempt = bytes(range(32, 64)), struct.pack("<IIQ", 5, 2, 11)

    def fragment(crc):
        head = struct.pack("<8sIIQIIII", b"VRVEFRG1", 1, crc, 9, 17, 3, 1, 1)
        head += base + bytes(range(64, 96)) + bytes(range(96, 128))
        head += struct.pack("<II", 1, 2) + attempt
        head += struct.pack("<QIIIHBBBBHIIIQI", 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 5000, 0, 2, 0x1112, 1)
        entry = struct.pack("<IIIBBHIIQ", 1, 5000, 5000, 0, 0, 0, 0xAABBCCDD, 0, 0x5566)
        return head.ljust(256, b"\0") + entry

    def prefix(crc, index, tag):
        return struct.pack("<IIQ", crc, index, tag)

    which = 1 | (2 - 1) << 5  # rank 1 of 2, position 0
    row = base + attempt + struct.pack("<HHHHIIIIQ", 17, 3, 3, which, 5000, 0, 0, 0, 0x1112)

    def footer(crc):
        page = prefix(crc, 0, 9) + struct.pack("<8sIIII", b"VRVEFOT1", 1, 1, 6, 1)
        page += struct.pack("<QQ", 9, 0x0123456789ABCDEF) + target + struct.pack("<II", 20, 5)
        return (page.ljust(96, b"\0") + row).ljust(PAGE, b"\0")

    def checkpoint(crc):
        page = prefix(crc, 0, 3) + struct.pack("<8sII", b"VRVECKP1", 1, 1) + target
        page += struct.pack("<QQIIQ", 3, 10, 1, 0, 1)
        return page.ljust(PAGE, b"\0")

    nonce = crc32c(0, struct.pack("<Q", 0x0123456789ABCDEF))
    for case, fill, seed in (("superblock", superblock, 0), ("segment", segment, 0),
                             ("fragment", fragment, nonce), ("footer", footer, nonce),
                             ("checkpoint", checkpoint, 0)):
        yield case, fill(crc32c(seed, fill(0)))


def main():
    wanted_structs = {one(group, "case"): one(group, "bytes") for group in records("flash_1.txt")}
    for case, made in flash_structs():
        expect(f"flash_1.txt {case}", made.rstrip(b"\0").hex(), wanted_structs.pop(case))
    expect("flash_1.txt, cases left", wanted_structs, {})
    expect("crc32c", crc32c(0, b"123456789"), 0xE3069283)
    for group in records("format_1.txt"):
        encoded = encode_format(group)
        expect(f"format_1.txt {one(group, 'case')}", encoded.hex(), one(group, "canonical"))
        expect(f"format_1.txt {one(group, 'case')}", hashlib.sha256(encoded).hexdigest(),
               one(group, "fingerprint"))
    for group in records("base_id.txt"):
        expect(f"base_id.txt {one(group, 'case')}", base_id(group), one(group, "base_id"))
    for group in records("checksum_seed.txt"):
        where = f"checksum_seed.txt {one(group, 'case')}"
        seed = seed_bytes(group)
        data = bytes.fromhex(one(group, "data"))
        stored, decoded = crc32c(0, seed), xxh3(0, seed)
        expect(where, f"{stored:08x}", one(group, "stored_seed"))
        expect(where, f"{decoded:016x}", one(group, "decoded_seed"))
        expect(where, f"{crc32c(stored, data):08x}", one(group, "stored_crc"))
        expect(where, f"{xxh3(decoded, data):016x}", one(group, "decoded_xxh3"))
    for group in records("extent_table.txt"):
        table = extent_table(parse_layers(one(group, "layers")), int(one(group, "k")))
        refused = len(table) > 504
        where = f"extent_table.txt {one(group, 'case')}"
        expect(where, "refused" if refused else " ".join(table), one(group, "extents"))
        cut = stripes(table, int(one(group, "k")))
        expect(where, "refused" if refused else " ".join(cut), one(group, "stripes"))
    for group in records("placement_1.txt"):
        made = {}
        for key, value in placement(group):
            made.setdefault(key, []).append(value)
        for key, values in made.items():
            expect(f"placement_1.txt {one(group, 'case')} {key}", values, group[key])
    for group in records("erasure_1.txt"):
        where = f"erasure_1.txt {one(group, 'case')}"
        k, m = (int(n) for n in one(group, "scheme").split("+"))
        members = [bytes.fromhex(data) for data in group["data"]]
        matrix, rows = parity_rows(k, m)
        expect(where, str(matrix), one(group, "matrix"))
        expect(where, [bytes(row).hex() for row in rows], group.get("row", []))
        expect(where, [parity_of(row, members).hex() for row in rows], group.get("parity", []))
    if CHECKED < 100:
        sys.exit(f"only {CHECKED} vectors found")
    print(f"{CHECKED} vectors hold")


if __name__ == "__main__":
    main()
