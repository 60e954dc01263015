/* The bifurcation diagram and the basins of attraction of benchmarks/study.py by hand: the step of
 * moreau.c, the forcing frequency w and with it h = 2 pi / (w steps) of each member its own. */
#include "moreau.c"

typedef struct { double s, e; long steps, settle, keep; } Diagram;

/* The state once a period, `keep` times, after `settle` periods. */
static void strobed(const Diagram *d, double w, double q, double u, double *out)
{
    const Run run = {0.0, 2.0 * 3.14159265358979323846 / w / (double)d->steps, d->s, d->e, 0};
    long i = 0;
    for (; i < d->settle * d->steps; i++) step(&run, w, i, &q, &u);
    for (long r = 0; r < d->keep; r++) {
        for (long j = 0; j < d->steps; j++) step(&run, w, i++, &q, &u);
        out[r] = q;
    }
}

/* out (members, keep) */
void diagram(const Diagram *d, long members, const double *w, const double *q, const double *u,
             double *out)
{
#pragma omp parallel for schedule(dynamic, 8)
    for (long k = 0; k < members; k++) strobed(d, w[k], q[k], u[k], out + k * d->keep);
}
