extension ImageProcessors {
    /// Runs an operation of libvips by name. Replaces Nuke's Core Image filters.
    ///
    /// `VipsOperation.names` lists the allowed operations: those that turn one image into another one that is not
    /// larger. Operations that run programs, open files or draw text are excluded. Arguments are checked against ranges
    /// of our own before libvips sees them. Alpha stays as it is unless the operation moves pixels.
    public struct VipsOperation: ImageProcessing, Hashable {
        /// The value of an argument. Can be written as a literal.
        public typealias Argument = VipsArgument

        private let name: String
        private let arguments: [String: Argument]

        /// - Parameters:
        ///   - name: libvips' name of the operation, e.g. `invert`, `gaussblur`, `linear`.
        ///   - arguments: Arguments by libvips' names, with hyphens, e.g. `min-ampl`.
        public init(name: String, arguments: [String: Argument] = [:]) {
            self.name = name
            self.arguments = arguments
        }

        /// Names of the allowed operations.
        public static var names: Set<String> { Set(Rule.all.keys) }

        public var identifier: String {
            let list = arguments.sorted { $0.key < $1.key }.map {
                ImageProcessors.text($0.key) + "=" + ImageProcessors.text("\($0.value)")
            }
            return ImageProcessors.identifier(
                "vips",
                ["name": ImageProcessors.text(name), "arguments": list.joined(separator: ";")]
            )
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? operated(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` if an argument is not allowed or libvips fails, `.outputTooLarge`,
        ///   `.renderTimedOut`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try operated($0, context.bounds) }
        }

        private func operated(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard let rule = Rule.all[name] else {
                throw ImageProcessors.failure(
                    identifier,
                    "allowed are \(Self.names.sorted().joined(separator: ", "))"
                )
            }
            let arguments: [String: Argument]
            switch rule.checked(self.arguments) {
            case .success(let checked): arguments = checked
            case .failure(let error): throw ImageProcessors.failure(identifier, error.text)
            }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                switch rule.alpha {
                case .moves: return try pixels.operation(name, arguments).withStandardColors()
                case .blends:
                    return try pixels.premultiplied { colors throws(VipsError) in
                        try colors.operation(name, arguments)
                    }
                case .stays:
                    let result = try pixels.opaque().operation(name, arguments).withStandardColors()
                    return pixels.hasAlpha ? try result.joined(pixels.alpha()).withStandardColors() : result
                }
            }
        }
    }
}
