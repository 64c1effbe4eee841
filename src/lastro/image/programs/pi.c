/* Digits of pi by the series of the Chudnovsky brothers, summed by binary splitting on several threads, over GMP.

   The two halves of every upper sum are tasks of their own, and the square root runs beside the sum; the last division
   and the conversion to decimal digits are GMP's, and use one thread.
   Usage: lastro-pi DIGITS THREADS FILE. Printed are words and numbers: times in seconds apart for computation (sum,
   final arithmetic, conversion to decimal) and output (digits to FILE, and FILE to its disk), and for every power of ten
   up to DIGITS, and for DIGITS, the number that so many digits make, modulo 2^61 - 1. */

#include <fcntl.h>
#include <gmp.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GUARD = 16, SMALL = 64 };
static const double DIGITS_PER_TERM = 14.181647462725477;
static const unsigned long PRIME = (1UL << 61) - 1;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Terms a to b - 1: p and q are products, t is the sum over q. `forks`: how many more times to divide the work. */
static void sum(mpz_t p, mpz_t q, mpz_t t, unsigned long a, unsigned long b, int forks)
{
    if (b - a == 1) {
        if (a == 0) {
            mpz_set_ui(p, 1);
            mpz_set_ui(q, 1);
        } else {
            mpz_set_ui(p, 6 * a - 5);
            mpz_mul_ui(p, p, 2 * a - 1);
            mpz_mul_ui(p, p, 6 * a - 1);
            mpz_set_ui(q, a);
            mpz_mul_ui(q, q, a);
            mpz_mul_ui(q, q, a);
            mpz_mul_ui(q, q, 10939058860032000UL); /* 640320^3 / 24 */
        }
        mpz_set_ui(t, 545140134UL);
        mpz_mul_ui(t, t, a);
        mpz_add_ui(t, t, 13591409UL);
        mpz_mul(t, t, p);
        if (a & 1)
            mpz_neg(t, t);
        return;
    }
    unsigned long middle = a + (b - a) / 2;
    int fork_here = forks > 0 && b - a > SMALL;
    mpz_t p2, q2, t2;
    mpz_inits(p2, q2, t2, NULL);
#pragma omp task if (fork_here) shared(p, q, t)
    sum(p, q, t, a, middle, forks - 1);
    sum(p2, q2, t2, middle, b, forks - 1);
#pragma omp taskwait
    /* t = t * q2 + p * t2 */
#pragma omp task if (fork_here) shared(t, q2)
    mpz_mul(t, t, q2);
    mpz_mul(t2, t2, p);
#pragma omp taskwait
#pragma omp task if (fork_here) shared(p, p2)
    mpz_mul(p, p, p2);
    mpz_add(t, t, t2);
    mpz_mul(q, q, q2);
#pragma omp taskwait
    mpz_clears(p2, q2, t2, NULL);
}

/* sqrt(10005) times ten to the power of `places`, rounded down. */
static void root(mpz_t result, unsigned long places)
{
    mpz_ui_pow_ui(result, 10, 2 * places);
    mpz_mul_ui(result, result, 10005);
    mpz_sqrt(result, result);
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void write_out(const char *file, const char *digits, size_t n)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        fail(file);
    for (size_t done = 0; done < n;) {
        ssize_t wrote = write(fd, digits + done, n - done);
        if (wrote < 0)
            fail(file);
        done += (size_t)wrote;
    }
    if (fsync(fd) != 0 || close(fd) != 0)
        fail(file);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("lastro-pi 1, compiled by GCC %s with GMP %s\n", __VERSION__, gmp_version);
        return 0;
    }
    long digits = argc == 4 ? atol(argv[1]) : 0;
    int threads = argc == 4 ? atoi(argv[2]) : 0;
    if (digits < 10 || digits > 10000000000L || threads < 1) {
        fprintf(stderr, "usage: lastro-pi DIGITS THREADS FILE\n");
        return 2;
    }
    omp_set_num_threads(threads);
    unsigned long places = (unsigned long)digits - 1 + GUARD;
    unsigned long terms = (unsigned long)((double)places / DIGITS_PER_TERM) + 2;
    int forks = 2;
    for (int n = threads; n > 1; n /= 2)
        forks++;
    mpz_t p, q, t, r;
    mpz_inits(p, q, t, r, NULL);
    int used = 0;

    double began_s = now_s();
#pragma omp parallel
    {
#pragma omp atomic
        used++;
#pragma omp barrier
#pragma omp single
        {
#pragma omp task shared(r)
            root(r, places);
            sum(p, q, t, 0, terms, threads > 1 ? forks : 0);
#pragma omp taskwait
        }
    }
    double summed_s = now_s();
    mpz_mul_ui(q, q, 426880);
    mpz_mul(r, r, q);
    mpz_tdiv_q(r, r, t);
    mpz_ui_pow_ui(p, 10, GUARD);
    mpz_tdiv_q(r, r, p);
    double divided_s = now_s();
    char *text = mpz_get_str(NULL, 10, r);
    double computed_s = now_s();
    if ((long)strlen(text) != digits) {
        fprintf(stderr, "%zu digits came out instead of %ld\n", strlen(text), digits);
        return 1;
    }
    write_out(argv[3], text, (size_t)digits);
    double written_s = now_s();

    printf("lastro-pi 1\ngmp %s\nthreads %d\ndigits %ld\n", gmp_version, used, digits);
    printf("sum %.6f\ndivision %.6f\nconversion %.6f\n", summed_s - began_s, divided_s - summed_s, computed_s - divided_s);
    printf("computation %.6f\noutput %.6f\n", computed_s - began_s, written_s - computed_s);
    unsigned __int128 residue = 0;
    long power = 10;
    for (long n = 1; n <= digits; n++) {
        residue = (residue * 10 + (unsigned)(text[n - 1] - '0')) % PRIME;
        if (n == power || n == digits)
            printf("residue %ld %lu\n", n, (unsigned long)residue);
        power = n == power ? power * 10 : power;
    }
    /* What came out before its conversion, and what was converted, must be the same number. */
    printf("binary %lu\nfirst %.10s\nlast %s\nend\n", mpz_fdiv_ui(r, PRIME), text, text + digits - 10);
    return 0;
}
