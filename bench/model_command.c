/* `shunt model`: what a step would take, on paper. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "load.h"
#include "model.h"

static int fail(const char *what)
{
	fprintf(stderr, "shunt model: %s: %s\n", what, strerror(errno));
	return COMMAND_FAILED;
}

static int make_job(struct model *model)
{
	struct model_job *job = &model->job;
	struct options *bench = &model->options.bench;
	char error[ROUTING_ERROR];

	job->options = &model->options;
	job->host_ranks = bench->num_ranks / model->options.num_hosts;
	if (!shape_init(&job->shape, bench, error)) {
		fprintf(stderr, "shunt model: %s\n", error);
		return COMMAND_USAGE;
	}
	if (!routing_prepare(
		    &bench->routing, &job->shape, bench->topk, error)) {
		fprintf(stderr, "shunt model: --routing %s\n", error);
		return COMMAND_USAGE;
	}
	return model_formats(job);
}

/* The steps that the bench would take in turns. */
static int add_steps(struct model *model)
{
	struct model_rank *ranks =
		calloc((size_t)model->job.shape.num_ranks, sizeof(ranks[0]));

	for (int64_t step = 0; step < LOAD_STEPS; step++) {
		if (!ranks || !model_traffic(&model->job, step, ranks)) {
			free(ranks);
			errno = ENOMEM;
			return fail("the routing");
		}
		model_add_step(model, ranks, 1.0 / LOAD_STEPS);
	}
	free(ranks);
	return COMMAND_OK;
}

static int write_json(const struct model *model, const char *path)
{
	FILE *stream = strcmp(path, "-") ? fopen(path, "we") : stdout;
	bool done = stream && model_json(stream, model);

	if (stream && stream != stdout && fclose(stream))
		done = false;
	return done ? COMMAND_OK : fail(path);
}

static int report(const struct model *model)
{
	const struct options *options = &model->options.bench;
	bool alone = options->json_path && !strcmp(options->json_path, "-");

	if (!options->quiet && !alone)
		model_print(stdout, model);
	return options->json_path ? write_json(model, options->json_path)
				  : COMMAND_OK;
}

int model_command(int argc, char **argv)
{
	static struct model model;
	int status;

	model_options_init(&model.options, argc, argv);
	status = make_job(&model);
	if (!status)
		status = add_steps(&model);
	if (!status)
		status = model_needs(&model);
	if (!status)
		status = report(&model);
	shape_fini(&model.job.shape);
	options_fini(&model.options.bench);
	return status;
}
