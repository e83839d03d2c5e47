/* Heat on a plane in single precision (five points) and waves in a box in double precision (seven points). */
#include "runtime.h"

enum { SIDE = 96, HEAT_STEPS = 10, BOX = 22, WAVE_STEPS = 9 };
static float heat[2][SIDE][SIDE];
static double wave[3][BOX][BOX][BOX];

static void program(void) {
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) heat[0][i][j] = heat[1][i][j] = (float)random_unit() * 100;
    for (int t = 0; t < HEAT_STEPS; t++) {
        float(*now)[SIDE] = heat[t & 1], (*then)[SIDE] = heat[1 - (t & 1)];
        for (int i = 1; i < SIDE - 1; i++)
            for (int j = 1; j < SIDE - 1; j++)
                then[i][j] = now[i][j] + 0.2f * (now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1] - 4 * now[i][j]);
    }
    for (int n = 0; n < 30; n++) {
        int i = 1 + (int)random_below(BOX - 2), j = 1 + (int)random_below(BOX - 2), k = 1 + (int)random_below(BOX - 2);
        wave[0][i][j][k] = wave[1][i][j][k] = random_unit();
    }
    for (int t = 1; t <= WAVE_STEPS; t++) {
        double(*old)[BOX][BOX] = wave[(t - 1) % 3], (*now)[BOX][BOX] = wave[t % 3], (*then)[BOX][BOX] = wave[(t + 1) % 3];
        for (int i = 1; i < BOX - 1; i++)
            for (int j = 1; j < BOX - 1; j++)
                for (int k = 1; k < BOX - 1; k++) {
                    double around = now[i - 1][j][k] + now[i + 1][j][k] + now[i][j - 1][k] + now[i][j + 1][k] + now[i][j][k - 1] + now[i][j][k + 1];
                    then[i][j][k] = 2 * now[i][j][k] - old[i][j][k] + 0.1 * (around - 6 * now[i][j][k]);
                }
    }
    for (int i = 0; i < SIDE; i++) check_double(heat[0][i][(i * 31) % SIDE]);
    for (int i = 0; i < BOX; i++) check_double(wave[1][i][(i * 7) % BOX][(i * 5) % BOX]);
}
