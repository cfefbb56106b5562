"""Writes text in C and in languages of its family: what the back ends of C and of GPUs share.

A language is a table, `dialect.Dialect`. A back end adds to each part what is its own: a class that
extends the common one, rules that take the place of common ones, helpers. The parts, each using
only those below it:

    tables           the tables of rules with which a back end begins
    statements       sequences, branches, loops, constant arrays
       |
    expressions, arithmetic, conversions, operators
       |             rules, entered into the tables of `rules`
    memory           the places of loads and stores
    values           the text of expressions, and what is known of variables
    lines            lines of one function
    file_text        the file's other parts: headers, helpers, constants
    helpers          functions for what C has no operator for
    dialect, pieces, small_types, library
"""
