// A writer thread waits for the request to stop. It looks whether it was asked before it takes the lock to wait.
// pattern: missed signal
// line: if (!log->stopping)
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    char text[32];
    struct line *next;
};

struct log {
    pthread_mutex_t lock;
    pthread_cond_t stop;
    int stopping;
    struct line *lines;
    int written;
    pthread_t writer;
};

static void log_line(struct log *log, const char *text) {
    struct line *line = calloc(1, sizeof *line);
    strncpy(line->text, text, sizeof line->text - 1);
    pthread_mutex_lock(&log->lock);
    line->next = log->lines;
    log->lines = line;
    pthread_mutex_unlock(&log->lock);
}

static void log_flush(struct log *log) {
    pthread_mutex_lock(&log->lock);
    while (log->lines != NULL) {
        struct line *line = log->lines;
        log->lines = line->next;
        log->written++;
        free(line);
    }
    pthread_mutex_unlock(&log->lock);
}

static void log_await_stop(struct log *log) {
    if (!log->stopping) {
        pthread_mutex_lock(&log->lock);
        pthread_cond_wait(&log->stop, &log->lock);
        pthread_mutex_unlock(&log->lock);
    }
}

static void *write_lines(void *arg) {
    struct log *log = arg;
    log_await_stop(log);
    log_flush(log);
    return NULL;
}

static struct log *log_open(void) {
    struct log *log = calloc(1, sizeof *log);
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->stop, NULL);
    pthread_create(&log->writer, NULL, write_lines, log);
    return log;
}

static int log_close(struct log *log) {
    pthread_mutex_lock(&log->lock);
    log->stopping = 1;
    pthread_cond_signal(&log->stop);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->writer, NULL);
    int written = log->written;
    free(log);
    return written;
}

int main(void) {
    struct log *log = log_open();
    log_line(log, "started");
    log_line(log, "stopped");
    printf("%d lines\n", log_close(log));
    return 0;
}
