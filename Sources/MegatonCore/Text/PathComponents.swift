extension StringProtocol {
    /// Components of a path by its bytes, which is how the file system and HTTP read it.
    ///
    /// `split(separator: "/")` goes by characters instead. A slash before a combining mark, such as U+0301, is another
    /// character, so that it would miss such a slash, and with it a `..` in front.
    ///
    /// - Parameter omittingEmpty: false keeps the empty components between two slashes, and at both ends.
    package func pathComponents(omittingEmpty: Bool = true) -> [Substring] {
        let bytes = Substring(self).utf8
        return bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: omittingEmpty).map(Substring.init)
    }

    /// The path up to its last slash, with it; empty if it has none.
    package var directoryPart: Substring {
        let bytes = Substring(self).utf8
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return "" }
        return Substring(bytes[...slash])
    }

    /// Whether a component of the path is `..`, which would lead out of its directory.
    package var hasParentComponent: Bool { hasTwoDots && pathComponents().contains("..") }

    /// Whether a dot follows another: without them no component is `..`, and no more has to be looked at.
    package var hasTwoDots: Bool { PathBytes.haveTwoDots(Substring(self)) }
}

/// Loops over the bytes of a path: outside of generic code, which would not be compiled for one type.
private enum PathBytes {
    static func haveTwoDots(_ path: Substring) -> Bool {
        var path = path
        return path.withUTF8 { bytes in
            var wasDot = false
            for byte in bytes {
                let isDot = byte == UInt8(ascii: ".")
                if wasDot && isDot { return true }
                wasDot = isDot
            }
            return false
        }
    }
}
