"""Reports of comparisons and studies: one page of HTML each, which needs nothing but itself."""

from .comparison import comparison_page as comparison_page
from .study import study_page as study_page
