# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a scenario runs on: namespaces, programs, loads. Everything is undone at its end."""
