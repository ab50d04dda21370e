// Signatures of this module use types of MegatonCore, so that importers need them too.
@_exported public import MegatonCore
