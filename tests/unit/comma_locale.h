/* A locale with a decimal comma, for tests of what must not depend on it. */
#ifndef FACC_TEST_COMMA_LOCALE_H
#define FACC_TEST_COMMA_LOCALE_H

#include <check.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* A locale whose decimal point is a comma, made here if need be. */
static inline bool comma_locale(void)
{
    char dir[] = "/tmp/facc-locale-XXXXXX", command[200];
    if (setlocale(LC_ALL, "de_DE.UTF-8"))
        return true;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("LOCPATH", dir, 1);
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>%s/log", dir, dir);
    bool made = system(command) == 0 && setlocale(LC_ALL, "de_DE.UTF-8");
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    return made;
}

#endif
