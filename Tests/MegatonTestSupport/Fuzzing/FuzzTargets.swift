#if DEBUG || MEGATON_FUZZ
    import Foundation

    /// All targets, for `scripts/fuzz`.
    public enum FuzzTargets {
        /// - Throws: an error if libvips does not start.
        public static func all() throws -> [any FuzzTarget] {
            [
                RESPFuzz(), JobFuzz(), AddressFuzz(), URLFuzz(), try ImageFuzz(files: Corpus.smallImages()),
                HEIFFuzz(files: Corpus.smallImages()), JPEGFuzz(files: Corpus.smallImages()), HTTPCacheFuzz(),
                try CacheBlobFuzz(),
            ]
        }
    }
#endif
