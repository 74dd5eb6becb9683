"""Words that say nothing about which tool a question needs, folded, in French and in English."""

STOPWORDS = frozenset(
    """
    about after all also am an and any are as at be because been before being between both but by can could did do does
    doing down during each few for from further get give had has have having he her here hers him his how if in into is
    it its just know let like me more most my need no nor not now of off on once only or other our out over own please
    provide same she should so some such tell than thank thanks that the their them then there these they this those
    through to too under until up us use using very want was we were what when where which while who why will with would
    you your help looking make find
    ai au aux avec ce ces cet cette comme comment dans de des dois donne donner du elle elles en est et etre eu faire
    fait faut il ils je la le les leur leurs lui ma mais me mes moi mon ne nos notre nous on ou par pas peux peut plus
    pour pouvez pourriez puis quand que quel quelle quelles quels qui quoi sa sans se ses si son sont sur ta te tes toi
    ton tu un une veux voudrais vos votre vous aide aider merci besoin voir savoir
    """.split()
)
