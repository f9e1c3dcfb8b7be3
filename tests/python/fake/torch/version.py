cuda = "13.2"
hip = None
