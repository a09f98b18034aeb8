# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The table of scenarios, a file for each family."""
