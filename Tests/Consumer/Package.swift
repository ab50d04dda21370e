// swift-tools-version:6.2
import PackageDescription

// A package that uses the library as a dependency; scripts/consumer builds and runs it.
let package = Package(
    name: "Consumer",
    dependencies: [.package(name: "megaton", path: "../..")],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [.product(name: "MegatonPipeline", package: "megaton")],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        )
    ]
)
