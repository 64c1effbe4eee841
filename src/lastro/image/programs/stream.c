/* Bandwidth of memory by four loops over three long arrays, as John McCalpin's STREAM defines them:

       copy   c[i] = a[i]              16 bytes an iteration
       scale  b[i] = q * c[i]          16
       add    c[i] = a[i] + b[i]       24
       triad  a[i] = b[i] + q * c[i]   24

   This is a program of Lastro's own after that definition, and its results must be called by its name.
   Usage: lastro-stream ELEMENTS REPEATS; OMP_NUM_THREADS says how many threads. Printed are words and numbers: the
   time in seconds of every repeat of every loop, and by how much the arrays are off what they must hold in the end. */

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOPS = 4, MOST_REPEATS = 200 };
static const double Q = 3.0; /* every repeat makes the numbers 15 times as large: 200 times are still numbers */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double *array_of(long n)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)n * sizeof(double)) != 0) {
        fprintf(stderr, "no memory for an array of %ld elements\n", n);
        exit(1);
    }
    return memory;
}

/* The largest error of an array against the one value that all of it must hold, relative to that value. */
static double error_of(const double *array, long n, double wanted)
{
    double worst = 0.0;
#pragma omp parallel for reduction(max : worst)
    for (long i = 0; i < n; i++) {
        double error = fabs(array[i] - wanted) / fabs(wanted);
        if (!(error <= worst)) /* true for NaN too */
            worst = error == error ? error : HUGE_VAL;
    }
    return worst;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("lastro-stream 1, compiled by GCC %s\n", __VERSION__);
        return 0;
    }
    long n = argc == 3 ? atol(argv[1]) : 0;
    int repeats = argc == 3 ? atoi(argv[2]) : 0;
    if (n < 1 || repeats < 2 || repeats > MOST_REPEATS) {
        fprintf(stderr, "usage: lastro-stream ELEMENTS REPEATS (2 to %d)\n", MOST_REPEATS);
        return 2;
    }
    double *a = array_of(n), *b = array_of(n), *c = array_of(n);
    static double took_s[LOOPS][MOST_REPEATS];
    int threads = 0;

#pragma omp parallel
#pragma omp atomic
    threads++;

    double began_s = now_s();
    /* By the same threads that will work on them, so that pages lie near their CPU. */
#pragma omp parallel for
    for (long i = 0; i < n; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.0;
    }
    for (int k = 0; k < repeats; k++) {
        double t = now_s();
#pragma omp parallel for
        for (long i = 0; i < n; i++)
            c[i] = a[i];
        took_s[0][k] = now_s() - t;
        t = now_s();
#pragma omp parallel for
        for (long i = 0; i < n; i++)
            b[i] = Q * c[i];
        took_s[1][k] = now_s() - t;
        t = now_s();
#pragma omp parallel for
        for (long i = 0; i < n; i++)
            c[i] = a[i] + b[i];
        took_s[2][k] = now_s() - t;
        t = now_s();
#pragma omp parallel for
        for (long i = 0; i < n; i++)
            a[i] = b[i] + Q * c[i];
        took_s[3][k] = now_s() - t;
    }
    double total_s = now_s() - began_s;

    double wa = 1.0, wb = 2.0, wc = 0.0;
    for (int k = 0; k < repeats; k++) {
        wc = wa;
        wb = Q * wc;
        wc = wa + wb;
        wa = wb + Q * wc;
    }
    static const char *const NAMES[LOOPS] = {"copy", "scale", "add", "triad"};
    printf("lastro-stream 1\nthreads %d\nelements %ld\nrepeats %d\ntotal %.9f\n", threads, n, repeats, total_s);
    for (int loop = 0; loop < LOOPS; loop++) {
        printf("%s", NAMES[loop]);
        for (int k = 0; k < repeats; k++)
            printf(" %.9f", took_s[loop][k]);
        printf("\n");
    }
    printf("error %.3e\nend\n", fmax(error_of(a, n, wa), fmax(error_of(b, n, wb), error_of(c, n, wc))));
    return 0;
}
