/* Gravity between bodies, leapfrog steps; the energy before and after is in the checksum. */
#include "runtime.h"

enum { BODIES = 40, STEPS = 64 };
static double position[BODIES][3], velocity[BODIES][3], force[BODIES][3], mass[BODIES];

static void accelerate(void) {
    for (int i = 0; i < BODIES; i++) force[i][0] = force[i][1] = force[i][2] = 0;
    for (int i = 0; i < BODIES; i++)
        for (int j = i + 1; j < BODIES; j++) {
            double d[3], square = 0.01;
            for (int k = 0; k < 3; k++) d[k] = position[j][k] - position[i][k], square += d[k] * d[k];
            double inverse = 1 / (square * __builtin_sqrt(square));
            for (int k = 0; k < 3; k++) {
                force[i][k] += d[k] * mass[j] * inverse;
                force[j][k] -= d[k] * mass[i] * inverse;
            }
        }
}

static double energy(void) {
    double sum = 0;
    for (int i = 0; i < BODIES; i++) {
        for (int k = 0; k < 3; k++) sum += 0.5 * mass[i] * velocity[i][k] * velocity[i][k];
        for (int j = i + 1; j < BODIES; j++) {
            double square = 0.01;
            for (int k = 0; k < 3; k++) square += (position[j][k] - position[i][k]) * (position[j][k] - position[i][k]);
            sum -= mass[i] * mass[j] / __builtin_sqrt(square);
        }
    }
    return sum;
}

static void program(void) {
    for (int i = 0; i < BODIES; i++) {
        mass[i] = random_unit() + 0.1;
        for (int k = 0; k < 3; k++) position[i][k] = 4 * random_unit() - 2, velocity[i][k] = random_unit() - 0.5;
    }
    check_double(energy());
    accelerate();
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BODIES; i++)
            for (int k = 0; k < 3; k++) position[i][k] += 0.001 * (velocity[i][k] += 0.0005 * force[i][k]);
        accelerate();
        for (int i = 0; i < BODIES; i++)
            for (int k = 0; k < 3; k++) velocity[i][k] += 0.0005 * force[i][k];
    }
    check_double(energy());
    for (int i = 0; i < BODIES; i++) check_double(position[i][0]);
}
