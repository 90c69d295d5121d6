/* SPDX-License-Identifier: Apache-2.0 */
/* tests/lint/selftest/warns.c: a file that no compiler may pass in silence. */

int narrowed(long value); /* -Wconversion: the value does not fit */

int narrowed(long value)
{
    const int small = value;

    return small;
}
