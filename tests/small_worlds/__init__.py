"""Small worlds, explored completely: every state that can be reached, by every action, through the product's own functions.

``pair_world`` follows one pair through all histories. ``test_orders`` sends every plan over two entities with every fate
of every request. ``test_independence`` shows that pairs do not change each other's comparison, so that what holds for one
pair holds for all.
"""
