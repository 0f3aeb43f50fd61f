/* A GLib program: a thread pool, an asynchronous queue, a main loop in another thread, GObject signals.
 * Needs libglib2.0-dev. Prints the same sums under every schedule. */
#include <gio/gio.h>
#include <stdio.h>

enum { JOBS = 12, WORKERS = 3, EMITTERS = 2, EMISSIONS = 5 };

static GAsyncQueue *results;
static GMutex mutex;
static GCond changed;
static int activated, ticks;

static void square(gpointer job, gpointer unused)
{
	int number = GPOINTER_TO_INT(job);
	(void)unused;
	g_async_queue_push(results, GINT_TO_POINTER(number * number));
}

static void on_activate(GSimpleAction *action, GVariant *parameter, gpointer unused)
{
	(void)action, (void)parameter, (void)unused;
	g_mutex_lock(&mutex);
	activated++;
	g_cond_signal(&changed);
	g_mutex_unlock(&mutex);
}

static gboolean on_tick(gpointer loop)
{
	if (++ticks < 5)
		return G_SOURCE_CONTINUE;
	g_main_loop_quit(loop);
	return G_SOURCE_REMOVE;
}

static gpointer run_loop(gpointer unused)
{
	GMainContext *context = g_main_context_new();
	GMainLoop *loop = g_main_loop_new(context, FALSE);
	GSource *source = g_timeout_source_new(2);
	(void)unused;
	g_source_set_callback(source, on_tick, loop, NULL);
	g_source_attach(source, context);
	g_main_loop_run(loop);
	g_source_unref(source);
	g_main_loop_unref(loop);
	g_main_context_unref(context);
	return NULL;
}

static gpointer emit(gpointer action)
{
	for (int i = 0; i < EMISSIONS; i++)
		g_action_activate(action, NULL);
	return NULL;
}

int main(void)
{
	long sum = 0;
	GError *error = NULL;
	results = g_async_queue_new();
	GThreadPool *pool = g_thread_pool_new(square, NULL, WORKERS, FALSE, &error);
	for (int i = 1; i <= JOBS; i++)
		g_thread_pool_push(pool, GINT_TO_POINTER(i), &error);
	GThread *loop = g_thread_new("loop", run_loop, NULL);
	for (int i = 0; i < JOBS; i++)
		sum += GPOINTER_TO_INT(g_async_queue_pop(results));
	g_thread_pool_free(pool, FALSE, TRUE);
	g_thread_join(loop);

	GSimpleAction *action = g_simple_action_new("action", NULL);
	g_signal_connect(action, "activate", G_CALLBACK(on_activate), NULL);
	GThread *emitters[EMITTERS];
	for (int i = 0; i < EMITTERS; i++)
		emitters[i] = g_thread_new("emitter", emit, action);
	g_mutex_lock(&mutex);
	while (activated < EMITTERS * EMISSIONS)
		g_cond_wait(&changed, &mutex);
	g_mutex_unlock(&mutex);
	for (int i = 0; i < EMITTERS; i++)
		g_thread_join(emitters[i]);
	g_object_unref(action);
	g_async_queue_unref(results);
	printf("sum %ld, ticks %d, activated %d\n", sum, ticks, activated);
	return 0;
}
