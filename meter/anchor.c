/* SPDX-License-Identifier: Apache-2.0 */
/* meter/anchor.c: the journal's newest line told to places that the operator names.
 *
 * For:       a file that anchors are appended to, a command that reads each from its standard
 *            input.
 * Called by: keeper.c, on its thread alone.
 * Knows not: where news come from, when they are due. */
#include "meter/anchor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/base/metrics.h"

#define RETRY_NS (UINT64_C(2) * 1000000000)

extern char **environ;

static char *copy_text(struct span text)
{
    return text.size > 0 ? strndup(text.data, text.size) : NULL;
}

bool anchor_init(struct anchor *anchor, struct span file, struct span command)
{
    *anchor = (struct anchor){.file = copy_text(file), .command = copy_text(command)};
    return (file.size == 0 || anchor->file) && (command.size == 0 || anchor->command);
}

static void end_command(struct anchor *anchor)
{
    (void)kill(-anchor->child, SIGKILL);
    (void)waitpid(anchor->child, NULL, 0);
    anchor->child = 0;
}

void anchor_fini(struct anchor *anchor)
{
    if (anchor->child > 0)
        end_command(anchor);
    free(anchor->file);
    free(anchor->command);
    *anchor = (struct anchor){.file = NULL};
}

bool anchor_has_place(const struct anchor *anchor)
{
    return anchor->file || anchor->command;
}

void anchor_begin(struct anchor *anchor, struct span line)
{
    anchor->line_bytes = line.size < sizeof(anchor->line) ? line.size : sizeof(anchor->line);
    memcpy(anchor->line, line.data, anchor->line_bytes);
    anchor->file_due = anchor->file != NULL;
    anchor->command_due = anchor->command != NULL;
}

/* ---- the file ---- */

/* Does the file end within a line, because a write was cut? */
static bool is_torn(int fd)
{
    struct stat about;
    char last;

    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
           pread(fd, &last, 1, about.st_size - 1) == 1 && last != '\n';
}

static bool write_whole(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t wrote = write(fd, bytes, size);
        if (wrote < 0 && errno != EINTR)
            return false;
        if (wrote > 0) {
            bytes += wrote;
            size -= (size_t)wrote;
        }
    }
    return true;
}

/* false: errno says. */
static bool append_line(const struct anchor *anchor)
{
    const int fd = open(anchor->file, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    bool written;
    int problem;

    if (fd < 0)
        return false;
    written = (!is_torn(fd) || write_whole(fd, "\n", 1)) &&
              write_whole(fd, anchor->line, anchor->line_bytes) && fdatasync(fd) == 0;
    problem = errno;
    close(fd);
    errno = problem;
    return written;
}

static bool tell_file(struct anchor *anchor)
{
    if (append_line(anchor))
        return true;
    (void)snprintf(anchor->problem, sizeof(anchor->problem), "%s: %s", anchor->file,
                   strerror(errno));
    return false;
}

/* ---- the command ---- */

/* A child with a process group, signals and descriptors of its own. Returns what posix_spawn()
 * does. */
static int spawn_with(struct anchor *anchor, int input_fd)
{
    char *arguments[] = {(char[]){"sh"}, (char[]){"-c"}, anchor->command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals;
    int code;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, input_fd, STDIN_FILENO);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    (void)sigemptyset(&signals);
    (void)posix_spawnattr_setsigmask(&attributes, &signals);
    (void)sigaddset(&signals, SIGPIPE);
    (void)posix_spawnattr_setsigdefault(&attributes, &signals);
    code = posix_spawn(&anchor->child, "/bin/sh", &actions, &attributes, arguments, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (code != 0)
        anchor->child = 0;
    return code;
}

/* The line fits a pipe: nothing waits for the command. */
static bool start_command(struct anchor *anchor, uint64_t now_ns)
{
    int ends[2];
    int code;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        (void)snprintf(anchor->problem, sizeof(anchor->problem), "command: %s", strerror(errno));
        return false;
    }
    code = spawn_with(anchor, ends[0]);
    close(ends[0]);
    if (code == 0)
        (void)write_whole(ends[1], anchor->line, anchor->line_bytes);
    else
        (void)snprintf(anchor->problem, sizeof(anchor->problem), "command: %s", strerror(code));
    close(ends[1]);
    anchor->child_ns = now_ns;
    return code == 0;
}

/* How the command at work ended. false: it failed, and problem says how. */
static bool is_good_end(struct anchor *anchor, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFEXITED(status))
        (void)snprintf(anchor->problem, sizeof(anchor->problem), "command: exit status %d",
                       WEXITSTATUS(status));
    else
        (void)snprintf(anchor->problem, sizeof(anchor->problem), "command: ended by signal %d",
                       WTERMSIG(status));
    return false;
}

/* Looks at the command at work. *out_over: it is so no more; false: it failed. */
static bool watch_command(struct anchor *anchor, uint64_t now_ns, bool *out_over)
{
    int status = 0;
    const pid_t ended = waitpid(anchor->child, &status, WNOHANG);

    *out_over = true;
    if (ended == anchor->child) {
        anchor->child = 0;
        return is_good_end(anchor, status);
    }
    if (now_ns - anchor->child_ns < ANCHOR_COMMAND_NS) {
        *out_over = false;
        return true;
    }
    end_command(anchor);
    (void)snprintf(anchor->problem, sizeof(anchor->problem), "command: killed after 30 s");
    return false;
}

/* ---- both ---- */

static void note_failure(struct anchor *anchor, uint64_t now_ns)
{
    metric_add(METRIC_anchors_failed_total, 1);
    if (!anchor->failing)
        log_event(LOG_ERROR, "anchor", "%s; it is tried again", anchor->problem);
    anchor->failing = true;
    anchor->retry_ns = now_ns + RETRY_NS;
}

/* false: the command failed. */
static bool tell_command(struct anchor *anchor, uint64_t now_ns)
{
    bool over = false;

    if (anchor->child == 0)
        return start_command(anchor, now_ns);
    if (!watch_command(anchor, now_ns, &over))
        return false;
    if (over)
        anchor->command_due = false;
    return true;
}

enum anchor_state anchor_go_on(struct anchor *anchor, uint64_t now_ns)
{
    bool good = true;

    if (anchor->line_bytes == 0)
        return ANCHOR_IDLE;
    if (anchor->child == 0 && now_ns < anchor->retry_ns)
        return ANCHOR_UNDER_WAY;
    if (anchor->file_due) {
        good = tell_file(anchor);
        anchor->file_due = !good;
    }
    if (anchor->command_due && !tell_command(anchor, now_ns))
        good = false;
    if (!good)
        note_failure(anchor, now_ns);
    if (anchor->file_due || anchor->command_due)
        return ANCHOR_UNDER_WAY;
    if (anchor->failing)
        log_event(LOG_INFO, "anchor", "anchors are told again");
    anchor->failing = false;
    anchor->line_bytes = 0;
    metric_add(METRIC_anchors_total, 1);
    return ANCHOR_TOLD;
}
