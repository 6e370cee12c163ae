/* What the machine is that numbers were measured on. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "machine.h"

static void read_cpu(char *cpu, size_t cpu_bytes)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];
	char *colon;

	snprintf(cpu, cpu_bytes, "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		colon = strstr(line, ": ");
		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(cpu, cpu_bytes, "%s", colon + 2);
		break;
	}
	if (file)
		fclose(file);
}

static const char *widest_simd(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		return "avx512";
	return __builtin_cpu_supports("avx2") ? "avx2" : "sse2";
#elif defined(__aarch64__)
	return "neon";
#else
	return "none";
#endif
}

void machine_read(struct machine *machine)
{
	cpu_set_t allowed;

	read_cpu(machine->cpu, sizeof(machine->cpu));
	machine->num_cores = 1;
	if (!sched_getaffinity(0, sizeof(allowed), &allowed))
		machine->num_cores = CPU_COUNT(&allowed);
	machine->simd = widest_simd();
}

int64_t machine_available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	long long kib = -1;

	while (file && kib < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lld", &kib) != 1)
			kib = -1;
	if (file)
		fclose(file);
	return kib < 0 ? INT64_MAX : kib * 1024;
}

void machine_pin(int index)
{
	cpu_set_t allowed, one;
	int cpu = -1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	do {
		cpu++;
		if (cpu == CPU_SETSIZE)
			return;
	} while (!CPU_ISSET(cpu, &allowed) || index-- > 0);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}
