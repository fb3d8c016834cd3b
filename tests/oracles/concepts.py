"""The number game by plain loops over Python sets, written without a look at the library: what tests compare with."""

import math

NUMBERS = range(1, 101)


def tenenbaum(rule_weight, scale):
    """[(name, members, prior)] of the 34 rules and the 5050 intervals."""
    rules = {"odd": [n for n in NUMBERS if n % 2], "even": [n for n in NUMBERS if not n % 2]}
    rules["squares"] = [n for n in NUMBERS if math.isqrt(n) ** 2 == n]
    rules["cubes"] = [1, 8, 27, 64]
    rules["primes"] = [n for n in NUMBERS if n > 1 and not any(n % k == 0 for k in range(2, n))]
    for k in range(3, 13):
        rules[f"multiples of {k}"] = list(range(k, 101, k))
    for k in range(2, 11):
        members, power = [], k
        while power <= 100:
            members.append(power)
            power *= k
        rules[f"powers of {k}"] = members
    for k in range(10):
        rules[f"ends in {k}"] = [n for n in NUMBERS if str(n)[-1] == str(k)]
    space = [(name, set(members), rule_weight / len(rules)) for name, members in rules.items()]
    intervals = [(a, b) for a in NUMBERS for b in range(a, 101)]
    weigh = lambda n: n / scale**2 * math.exp(-n / scale)  # noqa: E731
    total = sum(weigh(b - a + 1) for a, b in intervals)
    for a, b in intervals:
        space.append((f"{a} to {b}", set(range(a, b + 1)), (1 - rule_weight) * weigh(b - a + 1) / total))
    return space


def likelihood(members, positive, negative, noise, weak=False, size=100):
    """Probability of examples under one hypothesis."""
    probability = 1.0
    for examples, chosen in ((positive, members), (negative, set(NUMBERS) - members)):
        for number in examples:
            inside = number in chosen
            probability *= noise / size + ((1 - noise) / (size if weak else len(chosen)) if inside else 0.0)
    return probability


def answers(space, positive, negative=(), noise=0.0, weak=False):
    """(evidence, posterior by name, membership and next example of the numbers from 1 to 100)."""
    joint = {name: prior * likelihood(members, positive, negative, noise, weak) for name, members, prior in space}
    evidence = math.fsum(joint.values())
    posterior = {name: value / evidence for name, value in joint.items()}
    membership, next_example = [0.0] * 100, [noise / 100] * 100
    for name, members, _ in space:
        for number in members:
            membership[number - 1] += posterior[name]
            next_example[number - 1] += (1 - noise) * posterior[name] / len(members)
    return evidence, posterior, membership, next_example
