"""Small worlds, explored breadth first: reachable states, by every action, through the product's own functions.

``pair_world`` follows one pair through all histories. ``test_orders`` sends every plan over two entities with every
outcome of every request. ``test_independence`` shows that pairs do not change each other's comparison, so that a law
of one pair holds for all.
"""
