"""GPT-2 and a block of Llama, Kronecker-sparse against dense (not in the paper's tables).

By hand: python figures/table_language_models.py --table results/<device>/networks.csv --output FOLDER
"""

from pathlib import Path

from networks import Ratios
from script import main

NAME = Path(__file__).stem
TITLE = "Table of language models (not in the paper): GPT-2 prefill and decoding, and a block of Llama"
STUDY = "networks"
TABLE = Ratios(
    NAME,
    "Every linear layer of each block has the chain of ksmm.default_chain; embeddings and head stay dense. Prefill "
    "fills a cache and computes the logits of the last token; one token is decoded after cached_tokens others.",
    ("prefill", "decode", "block"),
    chosen=lambda table: table.network.str.startswith(("gpt2", "llama")),
)
caption, missing, draw = TABLE.caption, TABLE.missing, TABLE.draw

if __name__ == "__main__":
    main(__name__)
