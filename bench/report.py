# SPDX-License-Identifier: Apache-2.0
"""A run as a table for people and as JSON for programs.

For:       table(result) and write(result, path).
Called by: run.py.
Knows not: processes, sockets.
"""

import json

from candidates import ALL

NAME_COLUMNS = 36
VALUE_COLUMNS = 10
SHORT = {"tollgate-openai": "tg-openai", "tollgate-unmetered": "tg-bare"}


def number(value):
    """Three digits or so, without a tail of noise."""
    if value is None:
        return "-"
    if abs(value) >= 10000:
        return f"{value / 1000:.1f}k"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def comparison(row):
    """`1.05 x haproxy`, or the bare limit for an absolute row."""
    sign = ">=" if row["better"] == "higher" else "<="
    return f"{sign} {number(row['must'])}", f"{sign} {number(row['aim'])}"


def table(result):
    """Lines: values, ratio, limits and verdict of each row, then marks and what is missing."""
    candidates = [name for name in ALL if any(name in row["values"] for row in result["rows"])]
    lines = [heading(result), "",
             "".join(["row".ljust(NAME_COLUMNS),
                      *(SHORT.get(name, name).rjust(VALUE_COLUMNS) for name in candidates),
                      "   ratio to        ", "must".ljust(9), "aim".ljust(9), "verdict"])]
    lines.append("-" * len(lines[-1]))
    for row in result["rows"]:
        must, aim = comparison(row)
        unit = f" [{row['unit']}]" if row["unit"] else ""
        versus = f"{number(row['ratio'])} {row['reference']}" if row["ratio"] is not None else ""
        lines.append("".join([
            (row["words"] + unit).ljust(NAME_COLUMNS),
            *(number(row["values"].get(name)).rjust(VALUE_COLUMNS) for name in candidates),
            "   ", versus.ljust(16), must.ljust(9), aim.ljust(9),
            row["verdict"] + " *" * row["own_bounds"]]))
    for name, why in result["left_out"].items():
        lines.append(f"{name.ljust(NAME_COLUMNS)}left out: {why}")
    lines.append("")
    if any(row["own_bounds"] for row in result["rows"]):
        lines.append("* nobody has promised anything for TLS: the bounds are our own, taken from "
                     "the plain rows")
    for row in result["rows"]:
        lines += [f"note: {row['name']}: {mark}" for mark in row["marks"]]
    lines += [f"WRONG ANSWER: {text}" for text in result["wrong"]]
    lines += [f"MISSING: {row['name']}: {row['missing']}" for row in result["rows"]
              if row["missing"]]
    lines += [f"{'OUR OWN BOUND' if row['own_bounds'] else 'MUST'} MISSED: {row['name']}: "
              f"{number(row['measure'])}, must be {comparison(row)[0]}"
              for row in result["rows"] if row["verdict"] == "MISSED"]
    return "\n".join(lines)


def heading(result):
    machine = result["machine"]
    return (f"{result['mark']} run of {result['date']}: {result['rounds_done']} rounds in "
            f"{result['minutes']:.1f} minutes, {machine['cpu']}, {machine['cores']} cores, "
            f"Linux {machine['kernel']}")


def write(result, path):
    path.write_text(json.dumps(result, indent=1) + "\n")
