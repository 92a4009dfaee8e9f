"""Methods that align neurons, called by flat keywords of which their names fix none."""

from retrofit_core.baselines import GitReBasin, OTFusion, PLeaS, TransformerOTFusion, ZipIt
from retrofit_core.methods import Method

otfusion = Method("OTFusion", "", "", OTFusion)
transformer_otfusion = Method("Transformer OTFusion", "", "", TransformerOTFusion)
rebasin = Method("Git Re-Basin", "", "", GitReBasin)
zipit = Method("ZipIt!", "", "", ZipIt)
pleas = Method("PLeaS", "", "", PLeaS)
