/* Moreau's scheme on the forced impact oscillator  x'' + x = cos(w t),  x <= s,  restitution e:
 *
 *     q+ = q + h u                                                             (1)
 *     u+ = -e u + (1+e) P(u + h/(1+e) (cos(w t+) - q+)),   t+ = t0 + (i+1) h   (2)
 *     P(x) = min(x, 0) where s - q+ <= 0 (the gap is closed), else x           (3)
 *
 * The hand-written loops benchmarks/speed.py compares with. */
#include <math.h>

typedef struct { double t0, h, s, e; long n; } Run;

/* One step; returns the impulse of the stop. */
static inline double step(const Run *run, double w, long i, double *q, double *u)
{
    const double t = run->t0 + (double)(i + 1) * run->h;
    const double qn = *q + run->h * *u;                                             /* (1) */
    const double target = *u + run->h / (1.0 + run->e) * (cos(w * t) - qn);         /* (2) */
    const double x = run->s - qn <= 0.0 && target > 0.0 ? 0.0 : target;             /* (3) */
    *u = -run->e * *u + (1.0 + run->e) * x;
    *q = qn;
    return (1.0 + run->e) * (target - x);
}

void final_state(const Run *run, double w, double *q, double *u)
{
    double a = *q, b = *u;
    for (long i = 0; i < run->n; i++) step(run, w, i, &a, &b);
    *q = a;
    *u = b;
}

/* What a recorded solution holds: t, q, v, gap, impulse, each of length n + 1. */
void every_step(const Run *run, double w, double q, double u, double *t, double *qs, double *us,
                double *gap, double *impulse)
{
    t[0] = run->t0, qs[0] = q, us[0] = u, gap[0] = run->s - q, impulse[0] = 0.0;
    for (long i = 0; i < run->n; i++) {
        impulse[i + 1] = step(run, w, i, &q, &u);
        t[i + 1] = run->t0 + (double)(i + 1) * run->h;
        qs[i + 1] = q;
        us[i + 1] = u;
        gap[i + 1] = run->s - q;
    }
}

/* One member after another, on as many threads as there are cores. */
void batch(const Run *run, long members, const double *w, double *q, double *u)
{
#pragma omp parallel for schedule(static)
    for (long k = 0; k < members; k++) final_state(run, w[k], &q[k], &u[k]);
}

/* The same in blocks of LANES members, the inner loop over members, for the vector unit. */
enum { LANES = 16 };

void batch_lanes(const Run *run, long members, const double *w, double *q, double *u)
{
#pragma omp parallel for schedule(static)
    for (long k = 0; k < members / LANES; k++) {
        double a[LANES], b[LANES], c[LANES];
        for (int j = 0; j < LANES; j++) a[j] = q[k * LANES + j], b[j] = u[k * LANES + j];
        for (int j = 0; j < LANES; j++) c[j] = w[k * LANES + j];
        for (long i = 0; i < run->n; i++)
#pragma omp simd
            for (int j = 0; j < LANES; j++) step(run, c[j], i, &a[j], &b[j]);
        for (int j = 0; j < LANES; j++) q[k * LANES + j] = a[j], u[k * LANES + j] = b[j];
    }
}
