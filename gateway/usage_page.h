/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/usage_page.h: sums of the ledger as a page of OpenAI's usage and costs endpoints.
 *
 * For:       what is asked of the books, and how their lines are written as JSON.
 * Called by: usage_api.c, on the keeper's thread.
 * Knows not: HTTP, who waits for it. */
#ifndef GATEWAY_USAGE_PAGE_H
#define GATEWAY_USAGE_PAGE_H

#include <stdio.h>

#include "gateway/usage_params.h"
#include "meter/books.h"

#define USAGE_RESULTS_MAX 100000u

/* Writes the page of a tenant. Errors: those of books_usage(); ERR_TOO_LARGE (more results than
 * USAGE_RESULTS_MAX), ERR_NO_MEMORY. */
MUST_CHECK enum err usage_page_print(struct books *books, enum usage_subject subject,
                                     const struct usage_params *params, struct span tenant,
                                     FILE *out, char *problem, size_t problem_size);

#endif
