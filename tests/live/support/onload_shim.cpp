// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Built as libonload.so: a program that is told to preload it has the name among its libraries, and
// nothing of Onload.

extern "C" int live_onload_shim_present() { return 1; }
