"""Markdown for code hosts: comments on plans and outcomes, issues about drift, failed runs."""
