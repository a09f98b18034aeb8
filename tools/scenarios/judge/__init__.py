# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pure functions that compare what the tracer said with the truth; no scenario runs here."""
