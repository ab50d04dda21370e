// swift-tools-version:6.2
import PackageDescription

let settings: [SwiftSetting] = [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
// As in Megaton itself, whose files the tests of the plug-ins share.
let strictImports: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

// Programs that use Megaton as a dependency, as users do; scripts/examples builds and runs them. They are one package,
// so that Megaton is built once for all of them.
let package = Package(
    name: "Examples",
    dependencies: [
        .package(name: "megaton", path: ".."),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        // The libraries that are plugged in. Packages that depend on Megaton do not resolve them.
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    ],
    targets: [
        // A cache and a loader as written for Nuke.
        .executableTarget(
            name: "Consumer",
            dependencies: [.product(name: "MegatonPipeline", package: "megaton")],
            path: "Consumer",
            swiftSettings: settings
        ),
        // Submits a batch to a cluster and iterates its outcomes.
        .executableTarget(
            name: "SubmitFromSwift",
            dependencies: [.product(name: "MegatonCluster", package: "megaton")],
            path: "SubmitFromSwift",
            swiftSettings: settings
        ),
        // A pipeline that shares its work with the workers of a cluster.
        .executableTarget(
            name: "SharedCache",
            dependencies: [.product(name: "MegatonCluster", package: "megaton")],
            path: "SharedCache",
            swiftSettings: settings
        ),
        // A loader on AsyncHTTPClient and a cache on SQLite.
        .target(
            name: "MegatonPlugins",
            dependencies: [
                .product(name: "MegatonPipeline", package: "megaton"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            path: "Plugins",
            swiftSettings: settings + strictImports
        ),
        // Support has links to files of Megaton's own tests, whose modules are no products.
        .testTarget(
            name: "MegatonPluginTests",
            dependencies: [
                "MegatonPlugins",
                .product(name: "MegatonPipeline", package: "megaton"),
                .product(name: "MegatonPipelineTesting", package: "megaton"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "PluginTests",
            swiftSettings: settings + strictImports
        ),
    ]
)
