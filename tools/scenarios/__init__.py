# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenarios whose truth is known, because each starts the cause itself: docs/scenarios.md."""
