/* SPDX-License-Identifier: Apache-2.0 */
/* router/quiet.c: says what it is, but not what it serves. lint: head */
#include "cache/cache.h" /* lint: arrow */
#include "config/base/err.h"
#include "router/policy.h"
