/* Escape times of a region of the Mandelbrot set: dependent arithmetic, loops that end when the data say so. */
#include "runtime.h"

enum { WIDTH = 110, HEIGHT = 70, LIMIT = 250 };

static void program(void) {
    static u32 histogram[LIMIT + 1];
    double left = -2.1 + random_unit() * 0.05, top = -1.1 + random_unit() * 0.05;
    for (int row = 0; row < HEIGHT; row++)
        for (int column = 0; column < WIDTH; column++) {
            double a = left + column * (2.8 / WIDTH), b = top + row * (2.2 / HEIGHT), x = 0, y = 0;
            int steps = 0;
            while (steps < LIMIT) {
                double xx = x * x, yy = y * y;
                if (xx + yy > 4) break;
                y = 2 * x * y + b;
                x = xx - yy + a;
                steps++;
            }
            histogram[steps]++;
        }
    for (int i = 0; i <= LIMIT; i++) check(histogram[i]);
}
