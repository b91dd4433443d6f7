/* A client and a worker of libgearman, as peers_test.go says. */
#include <libgearman/gearman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void must(gearman_return_t ret, const char *what) {
  if (gearman_failed(ret)) {
    fprintf(stderr, "%s: %s\n", what, gearman_strerror(ret));
    exit(1);
  }
}

static void print(const char *what, const void *data, size_t size) {
  printf("%s %.*s\n", what, (int)size, (const char *)data);
  fflush(stdout);
}

/* The worker's functions. */

static void *talk(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret) {
  size_t n = gearman_job_workload_size(job);
  char *said = malloc(n + 2);
  (void)context;
  memcpy(said, "d:", 2);
  memcpy(said + 2, gearman_job_workload(job), n);
  must(gearman_job_send_data(job, said, n + 2), "data");
  must(gearman_job_send_warning(job, "w", 1), "warning");
  must(gearman_job_send_status(job, 1, 2), "status");
  said[0] = 'c';
  *size = n + 2;
  *ret = GEARMAN_SUCCESS;
  return said;
}

static void *echo(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret) {
  (void)context;
  *ret = GEARMAN_SUCCESS;
  return gearman_job_take_workload(job, size);
}

static void *fail(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret) {
  (void)job, (void)context, (void)size;
  *ret = GEARMAN_WORK_FAIL;
  return NULL;
}

static void *throw(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret) {
  (void)context, (void)size;
  must(gearman_job_send_exception(job, "thrown", 6), "exception");
  *ret = GEARMAN_WORK_EXCEPTION;
  return NULL;
}

static void *held(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret) {
  char path[1024];
  FILE *runs;
  (void)context;
  snprintf(path, sizeof path, "%.*s.runs", (int)gearman_job_workload_size(job), (const char *)gearman_job_workload(job));
  runs = fopen(path, "a");
  fprintf(runs, "run\n");
  fclose(runs);
  path[strlen(path) - strlen(".runs")] = 0;
  while (access(path, F_OK) != 0) usleep(10000);
  *size = 4;
  *ret = GEARMAN_SUCCESS;
  return strdup("held");
}

static void work(int port, const char *prefix) {
  struct {
    const char *name;
    gearman_worker_fn *run;
  } functions[] = {{"talk", talk}, {"echo", echo}, {"fail", fail}, {"throw", throw}, {"held", held}};
  gearman_worker_st *worker = gearman_worker_create(NULL);
  must(gearman_worker_add_server(worker, "127.0.0.1", port), "server");
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    char name[256];
    snprintf(name, sizeof name, "%s.%s", prefix, functions[i].name);
    must(gearman_worker_add_function(worker, name, 0, functions[i].run, NULL), name);
  }
  for (;;) {
    gearman_return_t ret = gearman_worker_work(worker);
    if (gearman_failed(ret)) fprintf(stderr, "work: %s: %s\n", gearman_strerror(ret), gearman_worker_error(worker));
  }
}

/* The client's callbacks. */

static char *sent;
static size_t sent_size;

static gearman_return_t on_data(gearman_task_st *task) {
  print("data", gearman_task_data(task), gearman_task_data_size(task));
  return GEARMAN_SUCCESS;
}

static gearman_return_t on_warning(gearman_task_st *task) {
  print("warning", gearman_task_data(task), gearman_task_data_size(task));
  return GEARMAN_SUCCESS;
}

static gearman_return_t on_status(gearman_task_st *task) {
  printf("status %u/%u\n", gearman_task_numerator(task), gearman_task_denominator(task));
  return GEARMAN_SUCCESS;
}

static gearman_return_t on_complete(gearman_task_st *task) {
  size_t size = gearman_task_data_size(task);
  if (sent && size == sent_size && memcmp(sent, gearman_task_data(task), size) == 0)
    printf("complete %zu bytes\n", size);
  else
    print("complete", gearman_task_data(task), size);
  return GEARMAN_SUCCESS;
}

static gearman_return_t on_exception(gearman_task_st *task) {
  print("exception", gearman_task_data(task), gearman_task_data_size(task));
  return GEARMAN_SUCCESS;
}

static gearman_return_t on_fail(gearman_task_st *task) {
  (void)task;
  printf("fail\n");
  return GEARMAN_SUCCESS;
}

static int ask(int port, const char *prefix, const char *what, const char *argument) {
  gearman_client_st *client = gearman_client_create(NULL);
  gearman_return_t ret;
  char name[256];
  must(gearman_client_add_server(client, "127.0.0.1", port), "server");
  gearman_client_set_server_option(client, "exceptions", strlen("exceptions"));
  gearman_client_set_data_fn(client, on_data);
  gearman_client_set_warning_fn(client, on_warning);
  gearman_client_set_status_fn(client, on_status);
  gearman_client_set_complete_fn(client, on_complete);
  gearman_client_set_exception_fn(client, on_exception);
  gearman_client_set_fail_fn(client, on_fail);
  snprintf(name, sizeof name, "%s.%s", prefix, what);
  if (strcmp(what, "background") == 0) {
    gearman_job_handle_t handle;
    bool known = true, running = false;
    uint32_t numerator, denominator;
    snprintf(name, sizeof name, "%s.held", prefix);
    must(gearman_client_do_background(client, name, NULL, argument, strlen(argument), handle), "background");
    while (!running) {
      must(gearman_client_job_status(client, handle, &known, &running, &numerator, &denominator), "status");
      usleep(10000);
    }
    printf("running\n");
    fflush(stdout);
    while (known) {
      must(gearman_client_job_status(client, handle, &known, &running, &numerator, &denominator), "status");
      usleep(10000);
    }
    printf("over\n");
    return 0;
  }
  if (strcmp(what, "delayed") == 0) {
    gearman_task_attr_t when = gearman_task_attr_init_epoch(time(NULL) + 2, GEARMAN_JOB_PRIORITY_NORMAL);
    gearman_argument_t workload = gearman_argument_make(NULL, 0, argument, strlen(argument));
    snprintf(name, sizeof name, "%s.held", prefix);
    if (!gearman_execute(client, name, strlen(name), NULL, 0, &when, &workload, NULL)) {
      fprintf(stderr, "delayed: %s\n", gearman_client_error(client));
      return 1;
    }
    printf("submitted\n");
    return 0;
  }
  if (strcmp(what, "echo") == 0) {
    sent_size = (size_t)atol(argument);
    sent = malloc(sent_size);
    for (size_t i = 0; i < sent_size; i++) sent[i] = (char)(i * 31 + i / 4096);
    argument = sent;
  } else {
    sent_size = strlen(argument);
  }
  gearman_client_add_task(client, NULL, NULL, name, strcmp(what, "held") == 0 ? prefix : NULL, argument, sent_size, &ret);
  must(ret, "task");
  must(gearman_client_run_tasks(client), "run");
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "worker") == 0) work(atoi(argv[2]), argv[3]);
  if (argc == 6 && strcmp(argv[1], "client") == 0) return ask(atoi(argv[2]), argv[3], argv[4], argv[5]);
  return 2;
}
