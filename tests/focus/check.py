# SPDX-License-Identifier: Apache-2.0
"""Does a CSV file keep the MUST rules of FOCUS 1.2 that concern us?

For:       `check.py FILE [--invoice ID=USD]...` prints each broken rule with its line, exit 1 when there
           is one; `check.py --selftest` breaks each rule in a good file and must see it broken.
Used by:   ../integration/test_usage_reports.py.
Knows not: Tollgate; rules of columns that we do not have (commitments, capacity, zones).

Source: FinOps Open Cost and Usage Specification 1.2, columns and attributes.
"""

import csv
import decimal
import io
import json
import pathlib
import re
import sys

decimal.getcontext().prec = 80

MANDATORY = """BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd
    BillingPeriodStart ChargeCategory ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart
    ContractedCost EffectiveCost InvoiceIssuerName ListCost PricingQuantity PricingUnit ProviderName
    PublisherName ServiceCategory ServiceName""".split()
# Columns that must be there since we meter, have price lists, tags, models and one currency.
CONDITIONAL = """BillingAccountType ChargeFrequency ConsumedQuantity ConsumedUnit ContractedUnitPrice
    InvoiceId ListUnitPrice PricingCategory PricingCurrency RegionId RegionName ResourceId ResourceName
    ResourceType ServiceSubcategory SkuId SkuMeter SkuPriceDetails SkuPriceId SubAccountId
    SubAccountName SubAccountType Tags""".split()
NEVER_NULL = """BilledCost BillingAccountId BillingAccountName BillingAccountType BillingCurrency
    BillingPeriodEnd BillingPeriodStart ChargeCategory ChargePeriodEnd ChargePeriodStart
    ContractedCost EffectiveCost InvoiceIssuerName ListCost PricingCurrency ProviderName PublisherName
    ServiceCategory ServiceName ServiceSubcategory""".split()
# Not null in charges for usage that are no corrections.
USAGE = """ConsumedQuantity ConsumedUnit ContractedUnitPrice ListUnitPrice PricingCategory
    PricingQuantity PricingUnit SkuId SkuMeter SkuPriceId""".split()
DECIMALS = """BilledCost ConsumedQuantity ContractedCost ContractedUnitPrice EffectiveCost ListCost
    ListUnitPrice PricingQuantity""".split()
MOMENTS = "BillingPeriodEnd BillingPeriodStart ChargePeriodEnd ChargePeriodStart".split()
ALLOWED = {
    "BillingCurrency": {"USD"},
    "PricingCurrency": {"USD"},
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"AI and Machine Learning"},
    "ServiceSubcategory": {"AI Platforms", "Bots", "Generative AI", "Machine Learning",
                           "Natural Language Processing", "Other (AI and Machine Learning)"},
}
# The second is null where the first is.
TOGETHER = [("BillingAccountId", "BillingAccountType"), ("ConsumedQuantity", "ConsumedUnit"),
            ("PricingQuantity", "PricingUnit"), ("RegionId", "RegionName"),
            ("ResourceId", "ResourceName"), ("ResourceId", "ResourceType"),
            ("SkuPriceId", "SkuPriceDetails"), ("SubAccountId", "SubAccountName"),
            ("SubAccountId", "SubAccountType"), ("SkuId", "SkuMeter")]
# Within one value of the first there is one of the second.
ONE_OF = [("InvoiceId", "BillingAccountId"), ("SkuPriceId", "SkuId"),
          ("SkuPriceId", "SkuPriceDetails"), ("SkuId", "SkuMeter"),
          ("BillingAccountId", "BillingAccountName")]
NUMBER = re.compile(r"-?\d+(\.\d+)?([eE]-?\d+)?")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UNIT = re.compile(r"(\d+ )?[A-Z][A-Za-z]*(-[A-Z][A-Za-z]*)?")
NULL_WORDS = {"null", "none", "n/a", "nil", "nan", "-"}


def number(row, name):
    text = row.get(name, "")
    return decimal.Decimal(text) if NUMBER.fullmatch(text) else None


def check_columns(names):
    for name in MANDATORY + CONDITIONAL:
        if name not in names:
            yield "columns", f"expected the column {name}"
    for name in names:
        if names.count(name) > 1:
            yield "columns", f"the column {name} comes twice"
        if name not in MANDATORY + CONDITIONAL and not re.fullmatch(r"x_[A-Z][A-Za-z0-9]*", name):
            yield "columns", f"{name} is no column of FOCUS, and does not begin with x_"


def check_forms(row):
    for name in NEVER_NULL:
        if not row[name]:
            yield "null", f"{name} is null"
    for name, text in row.items():
        if text.strip().lower() in NULL_WORDS:
            yield "null", f"{name}: expected nothing for null, got {text}"
    for name in DECIMALS:
        if row[name] and not NUMBER.fullmatch(row[name]):
            yield "number", f"{name}: {row[name]} is no number of the format"
    for name in MOMENTS:
        if row[name] and not MOMENT.fullmatch(row[name]):
            yield "moment", f"{name}: {row[name]} is no UTC moment"
    for name, allowed in ALLOWED.items():
        if row[name] and row[name] not in allowed:
            yield "allowed", f"{name}: {row[name]} is not one of {', '.join(sorted(allowed))}"
    for name in ("ConsumedUnit", "PricingUnit"):
        if row[name] and not UNIT.fullmatch(row[name]):
            yield "unit", f"{name}: {row[name]}"


def check_object(row, name, values):
    """A JSON object of strings, numbers, booleans and nulls."""
    if not row[name]:
        return
    try:
        found = json.loads(row[name])
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, values) for value in found.values()):
        yield "object", f"{name}: {row[name]} is no object of plain values"
    elif name == "SkuPriceDetails":
        for key in found:
            if not re.fullmatch(r"x_[A-Z][A-Za-z0-9]*", key):
                yield "object", f"{name}: {key} does not begin with x_"


def check_periods(row):
    for kind in ("BillingPeriod", "ChargePeriod"):
        if row[kind + "Start"] >= row[kind + "End"]:
            yield "period", f"{kind} ends before it begins"
    if row["ChargeClass"] != "Correction" and not \
            row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["BillingPeriodEnd"]:
        yield "period", "the charge began outside of its billing period"


def check_usage(row):
    usage = row["ChargeCategory"] == "Usage"
    if usage and row["ChargeClass"] != "Correction":
        for name in USAGE:
            if not row[name]:
                yield "usage", f"{name} is null in a charge for usage"
        if row["ConsumedQuantity"] and not (number(row, "ConsumedQuantity") or 0) > 0:
            yield "usage", "ConsumedQuantity is not above 0"
    if not usage and (row["ConsumedQuantity"] or row["ConsumedUnit"]):
        yield "usage", "something was consumed by what is no usage"
    if row["ChargeCategory"] == "Purchase" and row["ChargeFrequency"] == "Usage-Based":
        yield "usage", "a purchase is not usage-based"
    for unit, cost in (("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost")):
        price, quantity = number(row, unit), number(row, "PricingQuantity")
        if price is None:
            continue
        if price < 0:
            yield "price", f"{unit} is negative"
        if row["ChargeClass"] != "Correction" and quantity is not None and \
                price * quantity != number(row, cost):
            yield "price", f"{unit} × PricingQuantity is {price * quantity}, {cost} {row[cost]}"


def check_row(row):
    yield from check_forms(row)
    yield from check_object(row, "Tags", (str, int, float, bool, type(None)))
    yield from check_object(row, "SkuPriceDetails", (str, int, float, bool))
    yield from check_periods(row)
    yield from check_usage(row)
    for first, second in TOGETHER:
        if bool(row[first]) != bool(row[second]):
            yield "together", f"of {first} and {second} one is null"


def check_all(rows, invoices):
    """What holds between lines."""
    for first, second in ONE_OF:
        seen = {}
        for line, row in enumerate(rows, 2):
            if row[first] and seen.setdefault(row[first], row[second]) != row[second]:
                yield line, "one", f"{first} {row[first]} has a second {second}"
    for invoice, total in invoices.items():
        billed = sum((number(row, "BilledCost") or 0 for row in rows if row["InvoiceId"] == invoice),
                     decimal.Decimal(0))
        if billed != decimal.Decimal(total):
            yield 0, "invoice", f"{invoice}: lines sum to {billed}, the invoice to {total}"


def check(text, invoices=None):
    """Every broken rule as (line, rule, what is wrong)."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = list(reader)
    except csv.Error as error:
        return [(reader.line_num, "csv", str(error))]
    broken = [(1, *found) for found in check_columns(lines[0] if lines else [])]
    broken += [(number, "csv", f"expected {len(lines[0])} cells, got {len(line)}")
               for number, line in enumerate(lines, 1) if len(line) != len(lines[0])]
    if broken:
        return broken
    rows = [dict(zip(lines[0], line)) for line in lines[1:]]
    for at, row in enumerate(rows, 2):
        broken += [(at, *found) for found in check_row(row)]
    return broken + list(check_all(rows, invoices or {}))


# ---- the checker, checked ----

GOOD = pathlib.Path(__file__).with_name("good.csv")
INVOICE = {"acme/2026-11-01T00:00:00Z": "0.10"}
# Line (2: usage, 3: usage, 4: credit, 5: correction, 6: rounding), column, what is put there, and the
# rule that this breaks.
BREAKS = [
    (2, "BilledCost", "", "null"), (2, "ProviderName", "", "null"), (2, "InvoiceId", "null", "null"),
    (2, "BilledCost", "+0.06", "number"), (2, "ConsumedQuantity", "1,200", "number"),
    (2, "ListCost", "$1", "number"), (2, "BillingPeriodStart", "2026-11-01", "moment"),
    (2, "ChargePeriodEnd", "2026-11-02T01:00:00+01:00", "moment"),
    (2, "ChargeCategory", "usage", "allowed"), (2, "ChargeClass", "Regular", "allowed"),
    (2, "BillingCurrency", "US Dollar", "allowed"), (2, "ServiceCategory", "AI", "allowed"),
    (2, "ServiceSubcategory", "Virtual Machines", "allowed"),
    (2, "PricingCategory", "List", "allowed"), (2, "ChargeFrequency", "Hourly", "allowed"),
    (2, "PricingUnit", "per token", "unit"), (2, "Tags", "team=search", "object"),
    (2, "Tags", '{"a":{"b":1}}', "object"), (2, "SkuPriceDetails", '{"tier":"flex"}', "object"),
    (2, "ChargePeriodEnd", "2026-11-02T10:00:00Z", "period"),
    (2, "BillingPeriodEnd", "2026-11-01T00:00:00Z", "period"),
    (2, "ChargePeriodStart", "2026-10-31T10:00:00Z", "period"),
    (2, "PricingQuantity", "", "usage"), (2, "ListUnitPrice", "", "usage"),
    (2, "SkuPriceId", "", "usage"), (2, "ConsumedQuantity", "0", "usage"),
    (4, "ConsumedQuantity", "5", "usage"), (2, "ChargeCategory", "Purchase", "usage"),
    (2, "ListUnitPrice", "-0.05", "price"), (2, "PricingQuantity", "1.2000001", "price"),
    (2, "ContractedCost", "0.0600000001", "price"), (2, "ConsumedUnit", "", "together"),
    (2, "BillingAccountType", "", "together"), (2, "ResourceName", "", "together"),
    (4, "SubAccountType", "Project", "together"), (3, "InvoiceId", "acme/2026-11", "invoice"),
    (3, "BillingAccountId", "other", "one"), (3, "SkuId", "small/input", "one"),
    (6, "BilledCost", "0.0014", "invoice"),
]


def with_cell(lines, at, column, text):
    changed = [list(line) for line in lines]
    changed[at - 1][lines[0].index(column)] = text
    return changed


def print_csv(lines):
    out = io.StringIO(newline="")
    csv.writer(out).writerows(lines)
    return out.getvalue()


def selftest():
    """(what, is it as expected) of each case."""
    text = GOOD.read_text(encoding="utf-8")
    lines = list(csv.reader(io.StringIO(text, newline="")))
    yield "the good file is good", not check(text, INVOICE)
    for name in MANDATORY + CONDITIONAL:
        at = lines[0].index(name)
        found = check(print_csv([line[:at] + line[at + 1:] for line in lines]))
        yield f"without {name}", any(rule == "columns" for _, rule, _ in found)
    for column in ("tokenClass", "x_tokenClass", "BilledCost"):
        found = check(print_csv([lines[0] + [column]] + [line + ["1"] for line in lines[1:]]))
        yield f"with {column}", any(rule == "columns" for _, rule, _ in found)
    yield "a cell too many", check(text + ",\r\n")[0][1] == "csv"
    yield "a quote too many", check(text.replace("acme,", 'a"cme,"x"y', 1))[0][1] in ("csv", "columns")
    for at, column, put, rule in BREAKS:
        found = check(print_csv(with_cell(lines, at, column, put)), INVOICE)
        yield f"line {at}, {column}: {put!r} breaks {rule}", any(got == rule for _, got, _ in found)


def main(arguments):
    if arguments == ["--selftest"]:
        results = list(selftest())
        for what, good in results:
            if not good:
                print(f"not so: {what}")
        failed = sum(not good for _, good in results)
        print(f"{len(results) - failed} passed, {failed} failed")
        return 1 if failed else 0
    invoices = {}
    while len(arguments) > 2 and arguments[-2] == "--invoice":
        name, _, total = arguments[-1].rpartition("=")
        invoices[name] = total
        arguments = arguments[:-2]
    if len(arguments) != 1:
        print(__doc__)
        return 2
    broken = check(pathlib.Path(arguments[0]).read_text(encoding="utf-8"), invoices)
    for line, rule, what in broken:
        print(f"{arguments[0]}:{line}: {what} [{rule}]")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
